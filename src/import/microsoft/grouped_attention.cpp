// GroupQueryAttention: attention with fewer heads of keys and values than of queries, a cache, rotary embedding, and sequences
// of different lengths in a batch.
//
//   Item b of the batch has past[b] = max(seqlens_k[b] + 1 - S, 0) keys in the cache; its S new ones go behind them. The query at
//   row i is at position past[b] + i and sees the keys up to that, and of these the last local_window_size where that is given.
#include <cmath>

#include "import/microsoft/heads.h"

namespace smelt::importer::microsoft {
namespace {

enum Input {
  query,
  key,
  value,
  past_key,
  past_value,
  lengths,
  total,
  cos_cache,
  sin_cache,
  position_ids,
  bias,
  sink,
  k_scale,
  v_scale,
  q_norm,
  k_norm
};

struct Heads {
  int64_t queries, keys, size;  // size: of one head
};

Heads heads_of(const Call& c) {
  Heads h{c.integer("num_heads", 0), c.integer("kv_num_heads", 0), 0};
  if (h.queries < 1 || h.keys < 1 || h.queries % h.keys != 0)
    c.refuse("num_heads is {} and kv_num_heads {}, expected a multiple", h.queries, h.keys);
  const auto width = c.extent(query, 2);
  if (!width) c.refuse("the width of its query '{}' is not known", c.input(query));
  h.size = *width / (c.has(key) ? h.queries : h.queries + 2 * h.keys);
  return h;
}

/// Where each item's new keys begin: [B], int64.
Name past_lengths(Call& c, const Name& steps) {
  const Name all = c.before("Cast", {c.input(lengths)}, {MakeAttribute("to", int64_t{onnx::TensorProto::INT64})});
  const Name one = c.scalar(onnx::TensorProto::INT64, 1), none = c.scalar(onnx::TensorProto::INT64, 0);
  const Name flat = c.before("Reshape", {all, c.constant({-1})});
  return c.before("Max", {c.before("Sub", {c.before("Add", {flat, one}), steps}), none});
}

Name rotated(Call& c, const Name& x, const Name& at_positions, const Heads& h) {
  std::vector<onnx::AttributeProto> attributes{MakeAttribute("interleaved", c.integer("rotary_interleaved", 0))};
  const auto half = c.extent(cos_cache, 1);
  if (!half) c.refuse("the extents of its cos_cache '{}' are not known", c.input(cos_cache));
  if (2 * *half != h.size) attributes.push_back(MakeAttribute("rotary_embedding_dim", 2 * *half));
  return c.before("RotaryEmbedding", {x, c.input(cos_cache), c.input(sin_cache), at_positions}, attributes);
}

/// The cache, grown to the total length if it is shorter, with the fresh ones at their places.
Name written(Call& c, const Name& cache, const Name& fresh, const Name& longest, const Name& past) {
  const Name length = extent_of(c, cache, 2);
  const Name missing = c.before("Sub", {c.before("Max", {length, longest}), length});
  const Name shape = c.before("Concat", {extent_of(c, fresh, 0), extent_of(c, fresh, 1), missing, extent_of(c, fresh, 3)},
                              {MakeAttribute("axis", int64_t{0})});
  const Name zero = c.before("CastLike", {c.scalar(onnx::TensorProto::FLOAT, 0), fresh});
  const Name grown = c.before("Concat", {cache, c.before("Expand", {zero, shape})}, {MakeAttribute("axis", int64_t{2})});
  return c.before("TensorScatter", {grown, fresh, past});
}

/// [B, Hk, T, D] with each head as often as queries share it.
Name repeated(Call& c, const Name& x, const Heads& h) {
  if (h.queries == h.keys) return x;
  const Name wide = c.before("Expand", {unsqueeze(c, x, {2}), c.constant({1, 1, h.queries / h.keys, 1, 1})});
  return c.before("Reshape", {wide, c.constant({0, h.queries, -1, h.size})});
}

/// Which keys each query sees: [B, 1, S, T].
Name seen(Call& c, const Name& past, const Name& steps, const Name& keys) {
  const Name at_key = positions(c, keys);
  if (c.integer("causal", 1) == 0) {
    const Name all = c.before("Add", {past, steps});
    return c.before("Less", {at_key, c.before("Reshape", {all, c.constant({-1, 1, 1, 1})})});
  }
  const Name at_query = c.before("Add", {unsqueeze(c, past, {1}), positions(c, steps)});  // [B, S]
  const Name row = unsqueeze(c, at_query, {1, 3});
  Name up_to = c.before("LessOrEqual", {at_key, row});
  const int64_t window = c.integer("local_window_size", -1);
  if (window <= 0) return up_to;
  const Name first = c.before("Sub", {row, c.scalar(onnx::TensorProto::INT64, static_cast<double>(window))});
  return c.before("And", {up_to, c.before("Greater", {at_key, first})});
}

/// Softmax with one more term in the sum, exp(sink), of each head.
Name softmax(Call& c, const Name& x, const Heads& h) {
  const bool smooth = c.integer("smooth_softmax", 0) != 0;
  if (!smooth && !c.has(sink)) return c.before("Softmax", {x}, {MakeAttribute("axis", int64_t{-1})});
  const Name one = c.has(sink) ? c.before("Reshape", {c.input(sink), c.constant({1, h.queries, 1, 1})}) : c.score_scalar(0);
  const Name shape = c.before("Concat", {c.before("Shape", {x}, {MakeAttribute("end", int64_t{-1})}), c.constant({1})},
                              {MakeAttribute("axis", int64_t{0})});
  const Name all = c.before("Concat", {x, c.before("Expand", {one, shape})}, {MakeAttribute("axis", int64_t{-1})});
  const Name weights = c.before("Softmax", {all}, {MakeAttribute("axis", int64_t{-1})});
  return c.before("Slice", {weights, c.constant({0}), c.constant({-1}), c.constant({-1})});
}

}  // namespace

void group_query_attention(Call& c) {
  for (const auto& [i, name] : {std::pair{int{k_scale}, "k_scale"},
                                {int{v_scale}, "v_scale"},
                                {int{q_norm}, "q_norm_weight"},
                                {int{k_norm}, "k_norm_weight"}})
    c.refuse_input(i, name);
  c.refuse_flag("sliding_window_cache");
  c.refuse_flag("qk_output");
  c.refuse_output(3, "output_qk");
  const Heads h = heads_of(c);
  std::vector<Name> parts{c.input(query), c.input(key), c.input(value)};
  if (!c.has(key))
    parts = c.several("Split", {c.input(query), c.constant({h.queries * h.size, h.keys * h.size, h.keys * h.size})}, 3,
                      {MakeAttribute("axis", int64_t{-1})});
  Name q = split_heads(c, parts[0], h.queries), k = split_heads(c, parts[1], h.keys), v = split_heads(c, parts[2], h.keys);
  const Name steps = extent_of(c, c.input(query), 1), past = past_lengths(c, steps);
  if (c.integer("do_rotary", 0) != 0) {
    Name places = c.input(position_ids);
    if (places.empty()) places = c.before("Add", {unsqueeze(c, past, {1}), positions(c, steps)});
    q = rotated(c, q, places, h);
    k = rotated(c, k, places, h);
  }
  if (c.has(past_key)) {
    const Name whole = c.before("Cast", {c.input(total)}, {MakeAttribute("to", int64_t{onnx::TensorProto::INT64})});
    const Name longest = c.before("Reshape", {whole, c.constant({1})});
    k = written(c, c.input(past_key), k, longest, past);
    v = written(c, c.input(past_value), v, longest, past);
    c.give(1, k);
    c.give(2, v);
    const auto up_to = [&](const Name& x) { return c.before("Slice", {x, c.constant({0}), longest, c.constant({2})}); };
    k = up_to(k), v = up_to(v);
  } else {
    c.give(1, k);
    c.give(2, v);
  }
  // Where queries that share keys become rows of one product, no key is repeated; where all extents are known the rewrite
  // `attention` takes the repetition in.
  const bool fuse = !c.has(past_key) && c.extent(query, 0) && c.extent(query, 1);
  Name x;
  if (fuse) {
    x = scores(c, q, repeated(c, k, h), h.size);
  } else {
    x = scores(c, c.before("Reshape", {q, c.constant({0, h.keys, -1, h.size})}), k, h.size);
    const Name shape = c.before("Concat", {extent_of(c, q, 0), extent_of(c, q, 1), extent_of(c, q, 2), extent_of(c, k, 2)},
                                {MakeAttribute("axis", int64_t{0})});
    x = c.before("Reshape", {x, shape});
  }
  if (const float cap = c.number("softcap", 0); cap > 0) {
    const Name limit = c.score_scalar(static_cast<double>(cap));
    x = c.before("Mul", {c.before("Tanh", {c.before("Div", {x, limit})}), limit});
  }
  const Name hidden = additive(c, seen(c, past, steps, extent_of(c, k, 2)), c.lowest_score());
  x = c.before("Add", {sum(c, x, c.input(bias)), hidden});
  const Name weights = softmax(c, x, h);
  Name y;
  if (fuse) {
    y = c.before("MatMul", {weights, repeated(c, v, h)});
  } else {
    const Name rows = c.before("Concat", {extent_of(c, q, 0), c.constant({h.keys, -1}), extent_of(c, k, 2)},
                               {MakeAttribute("axis", int64_t{0})});
    const Name of_groups = c.before("MatMul", {c.before("Reshape", {weights, rows}), v});
    y = c.before("Reshape", {of_groups, c.before("Shape", {q})});
  }
  const Name beside = c.before("Transpose", {y}, {MakeAttribute("perm", std::vector<int64_t>{0, 2, 1, 3})});
  c.become("Reshape", {beside, c.constant({0, 0, h.queries * h.size})});
}

}  // namespace smelt::importer::microsoft
