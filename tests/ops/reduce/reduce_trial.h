// Reductions and operators along an axis of one random tensor, as their tests have them.
#pragma once

#include "ops/tactic_check.h"

namespace smelt::ops {

inline Tensor ints(std::vector<int64_t> v) { return Tensor::of<int64_t>({static_cast<int64_t>(v.size())}, v); }

inline double reduce_tolerance(DType type) {
  return type == DType::f64 ? 1e-13 : type == DType::f32 ? 5e-6 : type == DType::f16 ? 2e-3 : type == DType::bf16 ? 1e-2 : 0;
}

inline Trial reduce_trial(const std::string& op, DType type, const Shape& shape, std::map<std::string, Attribute> attrs = {}) {
  Trial t;
  t.node.op = op;
  t.node.attrs = std::move(attrs);
  t.node.opset = 20;
  t.add(random_tensor(type, shape, 5, is_signed(type) || is_float(type) ? -4 : 0, 9), false);
  return t;
}

/// The processor's kernels agree with the reference.
inline void agrees(Trial t, double allowed) {
  const Tensor y = expected(t);
  t.result(y.type(), y.shape());
  EXPECT_THAT(check(t, allowed), ::testing::Contains("cpu")) << t.node.op << " of " << name(t.bound.inputs[0].type);
}

}  // namespace smelt::ops
