// Plans on GPU 0, for the tests that run them.
#pragma once

#include <span>
#include <vector>

#include "support/graphs.h"

namespace smelt::run {

using namespace test;

inline Options on_gpu() {
  Options o = quick();
  o.device = "gpu";
  o.allow_fallback = true;  // random graphs hold operators at random
  return o;
}

/// Norm, products with a constant and a residual, and a concatenation of two results.
inline Graph block(int64_t rows, int64_t width, unsigned seed) {
  Builder b;
  const SymShape shape = to_sym({rows, width});
  const ValueId x = b.input("x", shape);
  const ValueId scale = b.constant("scale", random_tensor({width}, seed));
  const ValueId normal = b.node("normal", "RMSNormalization", {x, scale}, shape, DType::f32, {{"axis", int64_t{-1}}});
  const ValueId gate = b.node("gate", "Sigmoid", {normal}, shape);
  const ValueId gated = b.node("gated", "Mul", {normal, gate}, shape);
  const ValueId sum = b.node("sum", "Add", {gated, x}, shape);
  b.output(b.node("both", "Concat", {sum, normal}, to_sym({rows, 2 * width}), DType::f32, {{"axis", int64_t{1}}}));
  b.output(b.node("turned", "Transpose", {sum}, to_sym({width, rows}), DType::f32, {{"perm", std::vector<int64_t>{1, 0}}}));
  return std::move(b.g);
}

inline void expect_outputs(std::span<const Tensor> found, const std::vector<Tensor>& expected, double tolerance = 1e-5) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) expect_same(to_host(found[i]), expected[i], tolerance);
}

}  // namespace smelt::run
