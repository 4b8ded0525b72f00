// Attention, QAttention, MultiHeadAttention and DecoderMaskedMultiHeadAttention.
//
//   y = softmax(q kᵀ * scale + mask) v for each head, side by side
//
// They become a product with the weights and the attention's parts, which smelt's rewrite `attention` takes together.
#include "import/microsoft/heads.h"

namespace smelt::importer::microsoft {
namespace {

int64_t heads_of(const Call& c) {
  const int64_t heads = c.integer("num_heads", 0);
  if (heads < 1) c.refuse("num_heads is {}, expected 1 or more", heads);
  return heads;
}

/// The widths of q, k and v in the product with the weights.
std::vector<int64_t> widths(const Call& c, int weights) {
  if (const auto given = c.integers("qkv_hidden_sizes"); given && given->size() == 3) return *given;
  const auto width = c.extent(weights, -1);
  if (!width || *width % 3 != 0) c.refuse("the width of its weights '{}' is not a known multiple of 3", c.input(weights));
  return std::vector<int64_t>(3, *width / 3);
}

/// From the product of the input and the weights, [B, S, q | k | v], to the call's outputs.
void self_attention(Call& c, const Name& product, const std::vector<int64_t>& width, const Masks& masks, int past) {
  const int64_t heads = heads_of(c);
  if (width[0] < heads || width[0] % heads != 0 || width[0] != width[1] || width[2] % heads != 0)
    c.refuse("q, k and v of {}, {} and {} do not divide among {} heads", width[0], width[1], width[2], heads);
  const auto parts = c.several("Split", {product, c.constant(width)}, 3, {MakeAttribute("axis", int64_t{-1})});
  const Name q = split_heads(c, parts[0], heads);
  Name k = split_heads(c, parts[1], heads), v = split_heads(c, parts[2], heads);
  if (c.has(past)) {
    const Name cache = c.input(past);
    k = c.before("Concat", {at(c, cache, 0, 0), k}, {MakeAttribute("axis", int64_t{2})});
    v = c.before("Concat", {at(c, cache, 0, 1), v}, {MakeAttribute("axis", int64_t{2})});
  }
  if (c.wants(1))
    c.after("Concat", {unsqueeze(c, k, {0}), unsqueeze(c, v, {0})}, c.node.output(1), {MakeAttribute("axis", int64_t{0})});
  const Name raw = scores(c, q, k, width[0] / heads);
  become_attention(c, sum(c, raw, added_to_scores(c, masks, q, k)), v);
}

void refuse_shared_cache(const Call& c) {
  c.refuse_flag("do_rotary");
  c.refuse_flag("past_present_share_buffer");
}

}  // namespace

void attention(Call& c) {
  refuse_shared_cache(c);
  c.refuse_input(6, "past_sequence_length");
  if (!c.has(1)) c.refuse("its input 1 (weights) is left out, which is not supported");
  const auto width = widths(c, 1);
  self_attention(c, sum(c, c.before("MatMul", {c.input(0), c.input(1)}), c.input(2)), width,
                 {3, 5, c.integer("unidirectional", 0) != 0}, 4);
}

// input, weight, bias, input_scale, weight_scale, mask_index?, input_zero?, weight_zero?, past?
void quantized_attention(Call& c) {
  refuse_shared_cache(c);
  const auto width = widths(c, 1);
  const Name product =
      c.before("MatMulIntegerToFloat", {c.input(0), c.input(1), c.input(3), c.input(4), c.input(6), c.input(7), c.input(2)}, {},
               "com.microsoft");
  c.score_type(3);
  self_attention(c, product, width, {5, -1, c.integer("unidirectional", 0) != 0}, 8);
}

namespace {

struct Operands {
  Name q, k, v;  // [B, H, S, D]
  std::optional<int64_t> size;
};

/// Part `i` of [B, S, H, parts, D].
Name packed_part(Call& c, int input, int64_t i) {
  return c.before("Transpose", {at(c, c.input(input), 3, i)}, {MakeAttribute("perm", std::vector<int64_t>{0, 2, 1, 3})});
}

/// A slice of the bias for one of q, k and v, which lie in it behind each other.
std::vector<Name> bias_parts(Call& c, std::optional<int64_t> hidden, int bias) {
  const auto all = c.extent(bias, 0);
  if (!all || !hidden) c.refuse("the extents of its query and of its bias '{}' are not known", c.input(bias));
  return c.several("Split", {c.input(bias), c.constant({*hidden, *hidden, *all - 2 * *hidden})}, 3,
                   {MakeAttribute("axis", int64_t{0})});
}

/// `bias`: the input with that of queries, keys and values.
Operands operands(Call& c, int64_t heads, int bias_input) {
  const int query = c.rank(0);
  if (query == 5) {
    if (c.has(bias_input)) c.refuse("a bias (input {}) beside packed queries, keys and values is not supported", bias_input);
    return {packed_part(c, 0, 0), packed_part(c, 0, 1), packed_part(c, 0, 2), c.extent(0, 4)};
  }
  if (query != 3) c.refuse("its query has rank {}, expected 3 or 5", query);
  const auto hidden = c.extent(0, 2);
  const bool has_bias = c.has(bias_input);
  const std::vector<Name> bias = has_bias ? bias_parts(c, hidden, bias_input) : std::vector<Name>(3);
  Operands o;
  if (hidden) o.size = *hidden / heads;
  o.q = split_heads(c, sum(c, c.input(0), bias[0]), heads);
  if (!c.has(1)) c.refuse("its input 1 (key) is left out beside a query of rank 3");
  const int key = c.rank(1);
  if (key == 5) {
    if (has_bias) c.refuse("a bias (input {}) beside packed keys and values is not supported", bias_input);
    o.k = packed_part(c, 1, 0), o.v = packed_part(c, 1, 1);
  } else if (key == 4) {  // from a cache, where the bias is in them already
    o.k = c.input(1), o.v = c.input(2);
  } else {
    o.k = split_heads(c, sum(c, c.input(1), bias[1]), heads);
    o.v = split_heads(c, sum(c, c.input(2), bias[2]), heads);
  }
  return o;
}

}  // namespace

namespace {

/// The past keys (values) with the new ones: behind them, or, of a buffer that is filled up to `filled` ([1]), written there.
struct Cache {
  Name filled, end;  // "" without a buffer
  Name grown(Call& c, int past, const Name& fresh) const {
    if (filled.empty()) return c.before("Concat", {c.input(past), fresh}, {MakeAttribute("axis", int64_t{2})});
    const Name each = c.before("Expand", {filled, extent_of(c, fresh, 0)});
    return c.before("TensorScatter", {c.input(past), fresh, each});
  }
  Name used(Call& c, const Name& x) const {
    return filled.empty() ? x : c.before("Slice", {x, c.constant({0}), end, c.constant({2})});
  }
};

/// `mask` and `bias`: inputs; `past`: that of the keys, before that of the values; `length`: that of the buffers' keys.
void attention_over_cache(Call& c, Operands o, int mask, int bias, int past, int length) {
  if (c.has(past)) {
    Cache cache;
    if (c.has(length)) {
      const Name wide = c.before("Cast", {c.input(length)}, {MakeAttribute("to", int64_t{onnx::TensorProto::INT64})});
      cache.filled = c.before("Reshape", {wide, c.constant({1})});
      cache.end = c.before("Add", {cache.filled, extent_of(c, o.k, 2)});
    }
    o.k = cache.grown(c, past, o.k);
    o.v = cache.grown(c, past + 1, o.v);
    c.give(1, o.k);
    c.give(2, o.v);
    o.k = cache.used(c, o.k);
    o.v = cache.used(c, o.v);
  } else {
    c.give(1, o.k);
    c.give(2, o.v);
  }
  const Name raw = scores(c, o.q, o.k, o.size);
  become_attention(c, sum(c, raw, added_to_scores(c, {mask, bias, c.integer("unidirectional", 0) != 0}, o.q, o.k)), o.v);
}

}  // namespace

// query, key?, value?, bias?, key_padding_mask?, attention_bias?, past_key?, past_value?, past_sequence_length?, cache_indirection?
void multi_head_attention(Call& c) {
  c.refuse_input(9, "cache_indirection");
  c.refuse_output(3, "qk");
  attention_over_cache(c, operands(c, heads_of(c), 3), 4, 5, 6, 8);
}

// query, key?, value?, mask?, attention_bias?, past_key?, past_value?, past_sequence_length?, beam_width?, cache_indirection?, bias?
void decoder_masked_multi_head_attention(Call& c) {
  c.refuse_input(9, "cache_indirection");
  c.refuse_output(3, "qk");
  attention_over_cache(c, operands(c, heads_of(c), 10), 3, 4, 5, c.integer("past_present_share_buffer", 0) != 0 ? 7 : -1);
}

}  // namespace smelt::importer::microsoft
