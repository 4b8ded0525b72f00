// An attention's node, its masks, and how near a kernel comes to the reference.
#pragma once

#include "base/error.h"
#include "gpu/gpu_trial.h"

namespace smelt::ops::attention {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Case {
  DType type = DType::f16;
  int64_t batch = 1, heads = 2, kv_heads = 2, queries = 64, keys = 64, depth = 64, value_depth = 0;  // 0: as deep
  std::string program = {};
  std::vector<Tensor> masks = {};
  bool constant_masks = false, nan_guard = false, k_transposed = false;
  float scale = 0.2f;
};

inline const std::string add_f16 = "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; return %3 }";
inline const std::string add_f32 = "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; return %2 }";
inline const std::string hide = "(in0:f32, in1:bool) { %2 = const(-inf):f32; %3 = select(in1, in0, %2):f32; return %3 }";

inline Trial trial(const Case& c, uint32_t seed = 1) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "Attention";
  t.node.attrs["scale"] = c.scale;
  if (c.nan_guard) t.node.attrs["nan_guard"] = int64_t{1};
  if (c.k_transposed) t.node.attrs["k_transposed"] = int64_t{1};
  const int64_t value_depth = c.value_depth ? c.value_depth : c.depth;
  t.add(random_tensor(c.type, {c.batch, c.heads, c.queries, c.depth}, seed, -1, 1.5), false);
  t.add(random_tensor(c.type,
                      c.k_transposed ? Shape{c.batch, c.kv_heads, c.depth, c.keys} : Shape{c.batch, c.kv_heads, c.keys, c.depth},
                      seed + 1, -1.5, 1.5),
        false);
  t.add(random_tensor(c.type, {c.batch, c.kv_heads, c.keys, value_depth}, seed + 2, -1, 2), false);
  for (const Tensor& m : c.masks) t.add(m, c.constant_masks);
  if (!c.program.empty()) t.node.program = expr::Program::parse(c.program);
  t.result(c.type, {c.batch, c.heads, c.queries, value_depth});
  return t;
}

/// Two of four heads share keys, and all of a row's heads lie beside each other.
inline Trial heads_beside_each_other(int64_t queries) {
  constexpr int64_t keys = 130, depth = 40;
  Trial t = trial({.batch = 2, .heads = 4, .kv_heads = 2, .queries = queries, .keys = keys, .depth = depth});
  const auto beside = [](int64_t heads, int64_t length) { return Shape{length * heads * depth, depth, heads * depth, 1}; };
  t.bound.inputs[0].strides = beside(4, queries);
  t.bound.inputs[1].strides = t.bound.inputs[2].strides = beside(2, keys);
  t.bound.outputs[0].strides = beside(4, queries);
  return t;
}

/// Of one tensor [batch, length, 3, heads, depth].
inline Trial packed(int64_t length) {
  constexpr int64_t heads = 4, depth = 72;
  Trial t = trial({.batch = 2, .heads = heads, .kv_heads = heads, .queries = length, .keys = length, .depth = depth});
  for (size_t i = 0; i < 3; ++i) t.bound.inputs[i].strides = {length * 3 * heads * depth, depth, 3 * heads * depth, 1};
  return t;
}

// Weights are rounded to the type before they meet the values: one rounding more than the reference has.
inline double tolerance(DType t) {
  return t == DType::f64 ? 1e-12 : t == DType::f32 ? 5e-6 : t == DType::f16 ? 1.0 / 512 : 1.0 / 64;
}

/// 0 and, where `hidden(i, j)`, `low`.
inline Tensor mask(DType type, int64_t queries, int64_t keys, double low, auto hidden) {
  Tensor t = Tensor::empty(DType::f64, {queries, keys});
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) t.data<double>()[i * keys + j] = hidden(i, j) ? low : 0;
  return t.cast(type);
}

}  // namespace smelt::ops::attention
