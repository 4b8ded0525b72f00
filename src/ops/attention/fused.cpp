// ai.smelt's Attention: softmax(program(q · k · scale)) · v, in plain loops over rows. CachedAttention: the same over a cache, which
// it makes longer.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "graph/fused.h"
#include "ops/attention/family.h"
#include "ops/attention/shape.h"
#include "ops/core/flops.h"
#include "ops/core/function_body.h"
#include "ops/core/fused.h"
#include "ops/core/loops.h"

namespace smelt::ops {

AttentionShape::AttentionShape(const Node& n, const Shape& q, const Shape& k, const Shape& v)
    : k_transposed(n.get_int("k_transposed", 0) != 0), nan_guard(n.get_int("nan_guard", 0) != 0), scale(n.get_float("scale", 1)) {
  for (const Shape* s : {&q, &k, &v})
    if (s->size() != 4) fail("q, k and v are {}, {} and {}, expected four axes each", to_string(q), to_string(k), to_string(v));
  batch = q[0], heads = q[1], queries = q[2], depth = q[3];
  kv_heads = k[1], keys = k_transposed ? k[3] : k[2], value_depth = v[3];
  const int64_t key_depth = k_transposed ? k[2] : k[3];
  if (k[0] != batch || v[0] != batch) fail("batches of {}, {} and {}, expected one", batch, k[0], v[0]);
  if (v[1] != kv_heads || kv_heads < 1 || heads % kv_heads != 0)
    fail("{} query heads over {} key and {} value heads, expected a multiple of the same number", heads, kv_heads, v[1]);
  if (key_depth != depth) fail("keys of depth {} for queries of depth {}", key_depth, depth);
  if (v[2] != keys) fail("{} values for {} keys", v[2], keys);
}

Shape joined_keys(const Shape& past, const Shape& fresh) {
  if (past.size() != 4 || fresh.size() != 4)
    fail("a cache {} and {}, expected four axes each", to_string(past), to_string(fresh));
  Shape all = past;
  all[2] += fresh[2];
  Shape expected = past;
  expected[2] = fresh[2];
  if (fresh != expected) fail("{} does not fit behind a cache {}", to_string(fresh), to_string(past));
  return all;
}

namespace {

void infer_fused_attention(InferContext& c) {
  for (size_t i = 0; i < 3; ++i)
    if (!c.in(i).present()) fail("input {} is required and was left out", i);
  const DType type = c.in(0).type;
  if (!c.in(0).shape_known || !c.in(1).shape_known || !c.in(2).shape_known) return c.set_type(0, type);
  const AttentionShape s(c.node, c.in(0).shape, c.in(1).shape, c.in(2).shape);
  check_operands(c, 3, {s.batch, s.heads, s.queries, s.keys});
  c.set(0, type, {s.batch, s.heads, s.queries, s.value_depth});
}

void infer_cached_attention(InferContext& c) {
  for (size_t i = 0; i < 5; ++i)
    if (!c.in(i).present()) fail("input {} is required and was left out", i);
  for (size_t o = 0; o < 3; ++o) c.set_type(o, c.in(o).type);
  for (size_t i = 0; i < 5; ++i)
    if (!c.in(i).shape_known) return;
  const Shape k = joined_keys(c.in(1).shape, c.in(3).shape), v = joined_keys(c.in(2).shape, c.in(4).shape);
  const AttentionShape s(c.node, c.in(0).shape, k, v);
  if (s.k_transposed) fail("the keys of a cache are transposed");
  check_operands(c, 5, {s.batch, s.heads, s.queries, s.keys});
  c.set(0, c.in(0).type, {s.batch, s.heads, s.queries, s.value_depth});
  c.set(1, c.in(1).type, k);
  c.set(2, c.in(2).type, v);
}

/// Of the keys and values `k` and `v`; the program's operands are the inputs from `first` on.
template <class C> void attention(ComputeContext& c, const Tensor& k, const Tensor& v, size_t first) {
  const AttentionShape s(c.node, c.in(0).shape(), k.shape(), v.shape());
  constexpr DType type = dtype_of<C>::value;
  const Tensor qt = c.in(0).cast(type), kt = k.cast(type), vt = v.cast(type);
  const int64_t d = s.depth, keys = s.keys;
  Tensor scores = Tensor::empty(type, {s.batch, s.heads, s.queries, keys});
  const int64_t pairs = s.batch * s.heads;
  for (int64_t p = 0; p < pairs; ++p) {
    const C* of_pair = kt.data<C>() + s.kv_pair(p) * keys * d;
    for (int64_t i = 0; i < s.queries; ++i) {
      const C* q = qt.data<C>() + (p * s.queries + i) * d;
      for (int64_t j = 0; j < keys; ++j) {
        C dot = 0;
        for (int64_t e = 0; e < d; ++e) dot += q[e] * (s.k_transposed ? of_pair[e * keys + j] : of_pair[j * d + e]);
        scores.data<C>()[(p * s.queries + i) * keys + j] = static_cast<C>(s.scale) * dot;
      }
    }
  }
  const Tensor wanted = run_epilogue(c, scores, first, type);
  Tensor y = Tensor::empty(type, {s.batch, s.heads, s.queries, s.value_depth});
  std::vector<C> weights(static_cast<size_t>(keys));
  for (int64_t p = 0; p < pairs; ++p) {
    const C* of_pair = vt.data<C>() + s.kv_pair(p) * keys * s.value_depth;
    for (int64_t i = 0; i < s.queries; ++i) {
      const C* row = wanted.data<C>() + (p * s.queries + i) * keys;
      C top = -std::numeric_limits<C>::infinity(), total = 0;
      for (int64_t j = 0; j < keys; ++j) top = std::max(top, row[j]);
      for (int64_t j = 0; j < keys; ++j) total += weights[static_cast<size_t>(j)] = std::exp(row[j] - top);
      C* out = y.data<C>() + (p * s.queries + i) * s.value_depth;
      std::fill_n(out, s.value_depth, C(0));
      for (int64_t j = 0; j < keys; ++j) {
        C w = weights[static_cast<size_t>(j)] / total;
        if (s.nan_guard && w != w) w = 0;
        for (int64_t e = 0; e < s.value_depth; ++e) out[e] += w * of_pair[j * s.value_depth + e];
      }
    }
  }
  c.outputs[0] = y.cast(c.outputs[0].type());
}

void attend(ComputeContext& c, const Tensor& k, const Tensor& v, size_t first) {
  if (accumulator(c.outputs[0].type()) == DType::f64)
    attention<double>(c, k, v, first);
  else
    attention<float>(c, k, v, first);
}

void run_fused_attention(ComputeContext& c) { attend(c, c.in(1), c.in(2), 3); }

/// The past's rows of each pair, then the new ones.
Tensor joined(const Tensor& past, const Tensor& fresh) {
  Tensor all = Tensor::empty(past.type(), joined_keys(past.shape(), fresh.shape()));
  const int64_t pairs = std::max<int64_t>(1, past.shape()[0] * past.shape()[1]);
  auto* to = static_cast<std::byte*>(all.raw());
  for (int64_t p = 0; p < pairs; ++p)
    for (const Tensor* part : {&past, &fresh}) {
      const auto chunk = static_cast<size_t>(part->nbytes() / pairs);
      std::memcpy(to, static_cast<const std::byte*>(part->raw()) + static_cast<size_t>(p) * chunk, chunk);
      to += chunk;
    }
  return all;
}

void run_cached_attention(ComputeContext& c) {
  c.outputs[1] = joined(c.in(1), c.in(3));
  c.outputs[2] = joined(c.in(2), c.in(4));
  attend(c, c.outputs[1], c.outputs[2], 5);
}

/// Keys or values of Hk heads seen as Hq: each head repeated Hq / Hk times. Heads that are no numbers are as many on both sides:
/// no rewrite takes others. `more`: rows behind the input's.
ValueId repeat_heads(Body& b, ValueId v, size_t input, int64_t more) {
  if (!b.shape(0)[1].known() && !b.shape(input)[1].known()) return v;
  const int64_t heads = b.extent(0, 1), own = b.extent(input, 1);
  if (own == heads) return v;
  if (own == 0 || heads % own != 0) fail("{} query heads over {} heads of input {}, expected a multiple", heads, own, input);
  const ValueId grouped = b.op("Expand", {b.op("Unsqueeze", {v, b.ints({2})}), b.ints({1, 1, heads / own, 1, 1})});
  // One of the last two extents must be a number for the other to be worked out.
  const SymShape& s = b.shape(input);
  if (s[3].known()) return b.op("Reshape", {grouped, b.ints({0, heads, -1, s[3].value})});
  return b.op("Reshape", {grouped, b.ints({0, heads, b.extent(input, 2) + more, -1})});
}

/// Attention over `keys` and `values`, whose heads are those of the inputs 1 and 2, with `more_keys` and `more_values` rows behind
/// theirs; the program's operands are the inputs from `first` on.
ValueId attend(Body& b, ValueId keys, ValueId values, size_t first, int64_t more_keys, int64_t more_values) {
  const Node& n = b.node();
  const DType c = b.accumulator();
  for (size_t i = 0; i < first; ++i)
    if (b.rank(i) != 4) fail("input {} has rank {}, expected 4", i, b.rank(i));
  ValueId k = repeat_heads(b, b.cast(keys, c), 1, more_keys);
  if (!n.get_int("k_transposed", 0)) k = b.transpose(k, {0, 1, 3, 2});
  const ValueId v = repeat_heads(b, b.cast(values, c), 2, more_values);
  ValueId scores = b.op("Mul", {b.op("MatMul", {b.cast(b.in(0), c), k}), b.number(c, n.get_float("scale", 1))});
  if (n.program) {
    std::vector<ValueId> inputs = {scores};
    for (size_t i = first; i < n.inputs.size(); ++i) inputs.push_back(b.in(i));
    scores = b.program(*n.program, inputs)[0];
  }
  ValueId weights = b.op("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (n.get_int("nan_guard", 0)) weights = b.op("Where", {b.op("IsNaN", {weights}, DType::boolean), b.number(c, 0), weights}, c);
  return b.cast(b.op("MatMul", {weights, v}), b.output_type());
}

std::vector<ValueId> expand_attention(Body& b) { return {attend(b, b.in(1), b.in(2), 3, 0, 0)}; }

std::vector<ValueId> expand_cached_attention(Body& b) {
  if (b.node().get_int("k_transposed", 0)) fail("the keys of a cache are transposed");
  const ValueId k = b.op("Concat", {b.in(1), b.in(3)}, {{"axis", int64_t{2}}});
  const ValueId v = b.op("Concat", {b.in(2), b.in(4)}, {{"axis", int64_t{2}}});
  return {attend(b, k, v, 5, b.extent(3, 2), b.extent(4, 2)), k, v};
}

}  // namespace

namespace {

/// q [B, H, Sq, D], k [B, Hk, Sk, D], v [B, Hk, Sk, Dv]: two products, the softmax between them, the program on the scores.
int64_t attention_flops(const BoundNode& b) {
  const Shape &q = input_of(b, 0).shape, &v = input_of(b, 2).shape;
  if (q.size() != 4 || v.size() != 4) return 0;
  const int64_t keys = keeps_cache(*b.node) ? joined_keys(v, input_of(b, 4).shape)[2] : v[2];
  const int64_t scores = q[0] * q[1] * q[2] * keys;
  return scores * (2 * q[3] + 2 * v[3] + 5 + (b.node->program ? b.node->program->operations() : 0));
}

}  // namespace

std::span<const OpRow> fused_attention_ops() {
  static constexpr OpRow table[] = {
      {{"Attention", smelt_domain, infer_fused_attention, run_fused_attention, true, expand_attention},
       {.flops = {.count = attention_flops}, .contracts = true}},
      {{"CachedAttention", smelt_domain, infer_cached_attention, run_cached_attention, true, expand_cached_attention},
       {.flops = {.count = attention_flops}, .contracts = true}},
  };
  return table;
}

}  // namespace smelt::ops
