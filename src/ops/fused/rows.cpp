// Normalisation, attention and rotary embedding, in plain loops over rows.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/fused.h"
#include "ops/core/loops.h"
#include "ops/core/program.h"
#include "ops/fused/reference.h"
#include "ops/fused/rows.h"

namespace smelt::ops {

NormShape::NormShape(const Node& n, const Shape& x) : kind(n.get_string("kind", "")), epsilon(n.get_float("epsilon", 1e-5f)) {
  if (kind != "rms" && kind != "layer") fail("kind = '{}', expected 'rms' or 'layer'", kind);
  const auto axis = static_cast<size_t>(normalize_axis(n.get_int("axis", -1), static_cast<int64_t>(x.size())));
  rows = elements(Shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis)));
  width = elements(Shape(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end()));
}

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

void infer_norm(InferContext& c) {
  const TensorDesc& x = c.in(0);
  if (!x.present()) fail("input 0 is required and was left out");
  const DType type = program_type(c.node, x.type);
  if (!x.shape_known) {
    c.set_type(0, type);
    return c.set_type(1, x.type);
  }
  NormShape(c.node, x.shape);
  for (size_t i = 1; i < 4; ++i)
    if (c.has(i) && c.in(i).shape_known && broadcast(c.in(i).shape, x.shape) != x.shape)
      fail("input {} has shape {}, which does not broadcast to x's {}", i, to_string(c.in(i).shape), to_string(x.shape));
  check_operands(c, 4, x.shape);
  c.set(0, type, x.shape);
  c.set(1, x.type, x.shape);
}

namespace {

/// x + residual rounded to x's type.
Tensor residual_sum(const Tensor& x, const Tensor& residual) {
  if (!residual.valid()) return x;
  return evaluate(plain_node("Add", 2), std::vector{x, residual})[0];
}

/// v in type C, repeated to `shape`.
template <class C> std::vector<C> spread(const Tensor& v, const Shape& shape) {
  std::vector<C> out(static_cast<size_t>(elements(shape)));
  const LoopNest nest(shape, {broadcast_strides(v.shape(), shape), strides(shape)});
  nest.for_each_run([&](std::span<const int64_t> at) { load(v, at[0], nest.stride(0), nest.run(), out.data() + at[1]); });
  return out;
}

template <class C> void norm(ComputeContext& c, const Tensor& sum) {
  const NormShape s(c.node, sum.shape());
  Tensor in0 = Tensor::empty(dtype_of<C>::value, sum.shape());
  C* y = in0.data<C>();
  load(sum, 0, 1, sum.size(), y);
  for (int64_t row = 0; row < s.rows; ++row) {
    C* r = y + row * s.width;
    if (s.kind == "layer") {
      C total = 0;
      for (int64_t i = 0; i < s.width; ++i) total += r[i];
      const C mean = total / static_cast<C>(s.width);
      for (int64_t i = 0; i < s.width; ++i) r[i] -= mean;
    }
    C squares = 0;
    for (int64_t i = 0; i < s.width; ++i) squares += r[i] * r[i];
    const C deviation = std::sqrt(squares / static_cast<C>(s.width) + static_cast<C>(s.epsilon));
    for (int64_t i = 0; i < s.width; ++i) r[i] /= deviation;
  }
  if (c.has(2)) {
    const auto gamma = spread<C>(c.in(2), sum.shape());
    for (size_t i = 0; i < gamma.size(); ++i) y[i] *= gamma[i];
  }
  if (c.has(3)) {
    const auto beta = spread<C>(c.in(3), sum.shape());
    for (size_t i = 0; i < beta.size(); ++i) y[i] += beta[i];
  }
  c.outputs[0] = run_epilogue(c, in0, 4, c.outputs[0].type());
}

}  // namespace

void run_norm(ComputeContext& c) {
  const Tensor sum = residual_sum(c.in(0), c.in(1));
  if (accumulator(c.outputs[0].type()) == DType::f64)
    norm<double>(c, sum);
  else
    norm<float>(c, sum);
  if (c.outputs.size() > 1 && c.node.out(1) != ValueId::none) c.outputs[1] = sum.clone();
}

void infer_attention(InferContext& c) {
  for (size_t i = 0; i < 3; ++i)
    if (!c.in(i).present()) fail("input {} is required and was left out", i);
  const DType type = c.in(0).type;
  if (!c.in(0).shape_known || !c.in(1).shape_known || !c.in(2).shape_known) return c.set_type(0, type);
  const AttentionShape s(c.node, c.in(0).shape, c.in(1).shape, c.in(2).shape);
  check_operands(c, 3, {s.batch, s.heads, s.queries, s.keys});
  c.set(0, type, {s.batch, s.heads, s.queries, s.value_depth});
}

namespace {

template <class C> void attention(ComputeContext& c) {
  const AttentionShape s(c.node, c.in(0).shape(), c.in(1).shape(), c.in(2).shape());
  constexpr DType type = dtype_of<C>::value;
  const Tensor qt = c.in(0).cast(type), kt = c.in(1).cast(type), vt = c.in(2).cast(type);
  const int64_t d = s.depth, keys = s.keys;
  Tensor scores = Tensor::empty(type, {s.batch, s.heads, s.queries, keys});
  const int64_t pairs = s.batch * s.heads;
  for (int64_t p = 0; p < pairs; ++p) {
    const C* k = kt.data<C>() + s.kv_pair(p) * keys * d;
    for (int64_t i = 0; i < s.queries; ++i) {
      const C* q = qt.data<C>() + (p * s.queries + i) * d;
      for (int64_t j = 0; j < keys; ++j) {
        C dot = 0;
        for (int64_t e = 0; e < d; ++e) dot += q[e] * (s.k_transposed ? k[e * keys + j] : k[j * d + e]);
        scores.data<C>()[(p * s.queries + i) * keys + j] = static_cast<C>(s.scale) * dot;
      }
    }
  }
  const Tensor wanted = run_epilogue(c, scores, 3, type);
  Tensor y = Tensor::empty(type, {s.batch, s.heads, s.queries, s.value_depth});
  std::vector<C> weights(static_cast<size_t>(keys));
  for (int64_t p = 0; p < pairs; ++p) {
    const C* v = vt.data<C>() + s.kv_pair(p) * keys * s.value_depth;
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
        for (int64_t e = 0; e < s.value_depth; ++e) out[e] += w * v[j * s.value_depth + e];
      }
    }
  }
  c.outputs[0] = y.cast(c.outputs[0].type());
}

}  // namespace

void run_attention(ComputeContext& c) {
  if (accumulator(c.outputs[0].type()) == DType::f64)
    attention<double>(c);
  else
    attention<float>(c);
}

void infer_fused_rotary(InferContext& c) {
  const TensorDesc& x = c.in(0);
  if (!x.present()) fail("input 0 is required and was left out");
  if (!x.shape_known) return c.set_type(0, x.type);
  if (x.shape.empty() || x.shape.back() % 2) fail("x has shape {}, expected an even last extent", to_string(x.shape));
  for (size_t i = 1; i < 3; ++i)
    if (c.in(i).shape_known) rotary_table_shape(c.in(i).shape, x.shape);
  c.set(0, x.type, x.shape);
}

Shape rotary_table_shape(const Shape& table, const Shape& x) {
  Shape to = x;
  if (!table.empty() && table.back() == x.back() / 2) to.back() /= 2;
  if (broadcast(table, to) != to)
    fail("a table of shape {} fits neither {} nor half its last extent", to_string(table), to_string(x));
  return to;
}

namespace {

template <class C> void rotary(ComputeContext& c) {
  const Shape& shape = c.in(0).shape();
  const bool interleaved = c.node.get_int("interleaved", 0) != 0;
  const int64_t d = shape.back(), half = d / 2, rows = elements(shape) / (d ? d : 1);
  const auto x = spread<C>(c.in(0), shape);
  std::vector<C> tables[2];
  bool halved[2];
  for (size_t t = 0; t < 2; ++t) {
    const Shape to = rotary_table_shape(c.in(t + 1).shape(), shape);
    halved[t] = to.back() != d;
    tables[t] = spread<C>(c.in(t + 1), to);
  }
  Tensor y = Tensor::empty(dtype_of<C>::value, shape);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < d; ++i) {
      // Where the rotated partner of element i is, and its sign.
      const bool first = interleaved ? i % 2 == 0 : i < half;
      const int64_t partner = interleaved ? i ^ 1 : (i + half) % d;
      const C rotated = first ? -x[static_cast<size_t>(r * d + partner)] : x[static_cast<size_t>(r * d + partner)];
      auto entry = [&](size_t t) {
        const int64_t at = halved[t] ? r * half + (interleaved ? i / 2 : i % half) : r * d + i;
        return tables[t][static_cast<size_t>(at)];
      };
      y.data<C>()[r * d + i] = x[static_cast<size_t>(r * d + i)] * entry(0) + rotated * entry(1);
    }
  }
  c.outputs[0] = y.cast(c.outputs[0].type());
}

}  // namespace

void run_fused_rotary(ComputeContext& c) {
  if (accumulator(c.outputs[0].type()) == DType::f64)
    rotary<double>(c);
  else
    rotary<float>(c);
}

}  // namespace smelt::ops
