#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

TEST(MatMul, multiplies_matrices_and_vectors) {
  const Tensor a = ramp({2, 3});
  expect_near(run("MatMul", {a, ramp({3, 2})}), {2, 2}, {10, 13, 28, 40});
  expect_near(run("MatMul", {a, f32({3}, {1, 1, 1})}), {2}, {3, 12});
  expect_near(run("MatMul", {f32({2}, {1, 1}), a}), {3}, {3, 5, 7});
  expect_near(run("MatMul", {f32({2}, {3, 4}), f32({2}, {3, 4})}), {}, {25});
}

TEST(MatMul, broadcasts_batches_both_ways) {
  const Tensor y = run("MatMul", {ramp({2, 1, 1, 1}, 1), ramp({3, 1, 1}, 1)});
  expect_near(y, {2, 3, 1, 1}, {1, 2, 3, 2, 4, 6});
}

TEST(MatMul, of_integers_is_exact_and_wraps) {
  EXPECT_EQ(run("MatMul", {i64({1, 2}, {int64_t{1} << 53, 1}), i64({2, 1}, {1, 1})}).to_ints(), (Ints{(int64_t{1} << 53) + 1}));
  EXPECT_EQ(run("MatMul", {i32({1, 1}, {INT32_MAX}), i32({1, 1}, {2})}).to_ints(), (Ints{-2}));
}

TEST(MatMul, with_no_inner_elements_is_zero) {
  expect_near(run("MatMul", {Tensor::empty(DType::f32, {1, 0}), Tensor::empty(DType::f32, {0, 2})}), {1, 2}, {0, 0});
}

TEST(MatMul, names_the_extents_that_differ) {
  expect_error("inner extents 3 and 2", [] { run("MatMul", {ramp({2, 3}), ramp({2, 3})}); });
  expect_error("do not broadcast", [] { run("MatMul", {ramp({2, 1, 1}), ramp({3, 1, 1})}); });
}

TEST(Gemm, transposes_scales_and_adds) {
  expect_near(run("Gemm", {ramp({3, 2}), ramp({2, 3}), f32({2}, {1, 2})},
                  {{"transA", int64_t{1}}, {"transB", int64_t{1}}, {"alpha", 2.0f}, {"beta", 10.0f}}),
              {2, 2}, {2 * 10 + 10, 2 * 28 + 20, 2 * 13 + 10, 2 * 40 + 20});
}

TEST(Gemm, without_a_bias_adds_nothing) {
  expect_near(run("Gemm", {ramp({1, 1}, 3), ramp({1, 1}, 4)}, {{"beta", 7.0f}}), {1, 1}, {12});
}

TEST(MatMulInteger, takes_zero_points_by_row_and_by_column) {
  expect_near(run("MatMulInteger", {u8({2, 1}, {5, 5}), u8({1, 2}, {9, 9}), u8({2}, {1, 2}), u8({2}, {0, 4})}), {2, 2},
              {36, 20, 27, 15});
}

TEST(FusedMatMul, transposes_the_last_two_axes_and_scales) {
  expect_near(run("com.microsoft:FusedMatMul", {ramp({1, 3, 2}), ramp({1, 2, 3})},
                  {{"transA", int64_t{1}}, {"transB", int64_t{1}}, {"alpha", 2.0f}}),
              {1, 2, 2}, {20, 56, 26, 80});
}

TEST(FusedGemm, applies_its_activation) {
  expect_near(run("com.microsoft:FusedGemm", {f32({1, 1}, {1}), f32({1, 2}, {-2, 2})},
                  {{"activation", std::string("LeakyRelu")}, {"activation_alpha", 0.5f}}),
              {1, 2}, {-1, 2});
  expect_error("activation 'Nonsense'", [] {
    run("com.microsoft:FusedGemm", {ramp({1, 1}), ramp({1, 1})}, {{"activation", std::string("Nonsense")}});
  });
}

TEST(MatMulIntegerToFloat, scales_and_adds_the_bias) {
  expect_near(run("com.microsoft:MatMulIntegerToFloat", {u8({1, 1}, {12}), i8({1, 2}, {3, -3}), f32({}, {0.5}), f32({2}, {1, 2}),
                                                         u8({}, {10}), Tensor(), f32({2}, {0, 1})}),
              {1, 2}, {3, -5});
}

TEST(DynamicQuantizeMatMul, quantizes_a_first) {
  // a = {0, 255}: scale 1, zero point 0, exact.
  expect_near(
      run("com.microsoft:DynamicQuantizeMatMul", {f32({1, 2}, {0, 255}), u8({2, 1}, {7, 3}), f32({1}, {0.5}), u8({1}, {1})}),
      {1, 1}, {255});
}

}  // namespace
}  // namespace smelt::ops::test
