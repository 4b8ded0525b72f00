#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

TEST(QuantizeLinear, rounds_ties_to_even_and_saturates) {
  EXPECT_EQ(run("QuantizeLinear", {f32({6}, {1, 3, -1, 1000, -1000, 5}), f32({}, {2}), u8({}, {10})}).to_ints(),
            (Ints{10, 12, 10, 255, 0, 12}));
  EXPECT_EQ(run("QuantizeLinear", {f32({2}, {300, -300}), f32({}, {1}), i8({}, {0})}).to_ints(), (Ints{127, -128}));
}

TEST(QuantizeLinear, gives_0_for_a_number_that_is_none) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(run("QuantizeLinear", {f32({2}, {nan, 1}), f32({}, {1}), u8({}, {128})}).to_ints(), (Ints{0, 129}));
}

/// The nearest end of its range, in 32 bits, too.
TEST(QuantizeLinear, saturates_to_integers_of_32_bits) {
  const Tensor x = f32({3}, {3e9f, 1e20f, -1}), one = f32({}, {1});
  EXPECT_EQ(run("QuantizeLinear", {x, one, Tensor::scalar(uint32_t{0})}).to_ints(), (Ints{3000000000, UINT32_MAX, 0}));
  EXPECT_EQ(run("QuantizeLinear", {x, one, Tensor::scalar(int32_t{0})}).to_ints(), (Ints{INT32_MAX, INT32_MAX, -1}));
}

/// As kernels' do. Undefined sums are seen by UndefinedBehaviorSanitizer alone.
TEST(QGemm, sums_of_wide_integers_wrap) {
  const Tensor a = i32({1, 2}, {INT32_MAX, INT32_MAX}), b = i32({2, 1}, {2, 3}), one = f32({}, {1}),
               zero = Tensor::scalar(int32_t{0});
  const Tensor bias = i32({1}, {INT32_MAX});
  EXPECT_EQ(run("com.microsoft:QGemm", {a, one, zero, b, one, zero, bias}).to_doubles()[0], -6);
}

TEST(QuantizeLinear, has_one_scale_along_its_axis) {
  EXPECT_EQ(run("QuantizeLinear", {f32({2, 2}, {10, 10, 10, 10}), f32({2}, {1, 2}), u8({2}, {0, 100})}, {{"axis", int64_t{0}}})
                .to_ints(),
            (Ints{10, 10, 105, 105}));
  EXPECT_EQ(run("QuantizeLinear", {f32({2, 2}, {10, 10, 10, 10}), f32({2}, {1, 2}), u8({2}, {0, 100})}).to_ints(),
            (Ints{10, 105, 10, 105}));
}

TEST(QuantizeLinear, has_one_scale_for_each_block_the_last_may_be_short) {
  EXPECT_EQ(
      run("QuantizeLinear", {f32({1, 3}, {8, 8, 8}), f32({1, 2}, {1, 2})}, {{"axis", int64_t{1}}, {"block_size", int64_t{2}}})
          .to_ints(),
      (Ints{8, 8, 4}));
}

TEST(QuantizeLinear, packs_four_bits_when_asked) {
  const Tensor y =
      run("QuantizeLinear", {f32({3}, {-20, 3, 20}), f32({}, {1})}, {{"output_dtype", static_cast<int64_t>(DType::i4)}});
  EXPECT_EQ(y.type(), DType::i4);
  EXPECT_EQ(y.to_ints(), (Ints{-8, 3, 7}));
}

TEST(QuantizeLinear, to_an_8_bit_float_saturates_unless_told_otherwise) {
  const Attributes f8{{"output_dtype", static_cast<int64_t>(DType::f8e4m3fn)}};
  expect_near(run("QuantizeLinear", {f32({2}, {1000, 3}), f32({}, {2})}, f8), {2}, {448, 1.5});
  Attributes open = f8;
  open["saturate"] = int64_t{0};
  EXPECT_TRUE(std::isnan(run("QuantizeLinear", {f32({1}, {1000}), f32({}, {1})}, open).to_doubles()[0]));
}

TEST(QuantizeLinear, names_a_scale_of_the_wrong_length) {
  expect_error("the scale has shape [3], expected [2]", [] {
    run("QuantizeLinear", {f32({1, 2}, {1, 1}), f32({3}, {1, 1, 1})});
  });
}

TEST(DequantizeLinear, is_the_inverse_in_the_scales_type) {
  const Tensor y = run("DequantizeLinear", {u8({2}, {0, 130}), f32({}, {2}).cast(DType::f16), u8({}, {128})});
  EXPECT_EQ(y.type(), DType::f16);
  expect_near(y, {2}, {-256, 4});
  expect_near(run("DequantizeLinear", {i32({2}, {-3, 7}), f32({}, {0.5})}), {2}, {-1.5, 3.5});
}

TEST(DequantizeLinear, reads_packed_four_bit_blocks) {
  const Tensor x = i32({4, 1}, {-8, 7, 1, 2}).cast(DType::i4);
  expect_near(run("DequantizeLinear", {x, f32({2, 1}, {1, 10})}, {{"axis", int64_t{0}}, {"block_size", int64_t{2}}}), {4, 1},
              {-8, 7, 10, 20});
}

TEST(DynamicQuantizeLinear, always_holds_zero_in_its_range) {
  const auto y = run_all("DynamicQuantizeLinear", {f32({3}, {0, 2, -3})}, {}, 3);
  expect_near(y[1], {}, {5 / 255.0});
  EXPECT_EQ(y[2].to_ints(), (Ints{153}));
  EXPECT_EQ(y[0].to_ints(), (Ints{153, 255, 0}));
  EXPECT_EQ(run_all("DynamicQuantizeLinear", {f32({1}, {0})}, {}, 3)[0].to_ints(), (Ints{0}));
}

TEST(DynamicQuantizeLinear, of_an_infinite_range_has_the_zero_point_0) {
  const auto y = run_all("DynamicQuantizeLinear", {f32({2}, {-std::numeric_limits<float>::infinity(), 1})}, {}, 3);
  EXPECT_EQ(y[2].to_ints(), (Ints{0}));
  EXPECT_EQ(y[0].to_ints(), (Ints{0, 0}));
}

TEST(QLinearConv, sums_exactly_and_rounds_once) {
  // (12 - 10) * 3 + 1 = 7, times 0.5 * 0.5 / 0.25 = 7, plus 100
  EXPECT_EQ(run("QLinearConv", {u8({1, 1, 1}, {12}), f32({}, {0.5}), u8({}, {10}), i8({1, 1, 1}, {3}), f32({1}, {0.5}),
                                i8({1}, {0}), f32({}, {0.25}), u8({}, {100}), i32({1}, {1})})
                .to_ints(),
            (Ints{107}));
}

TEST(QLinearMatMul, scales_rows_of_a_and_columns_of_b) {
  EXPECT_EQ(run("QLinearMatMul", {u8({2, 1}, {1, 1}), f32({2}, {1, 2}), u8({2}, {0, 0}), u8({1, 2}, {1, 1}), f32({2}, {1, 10}),
                                  u8({2}, {0, 0}), f32({}, {1}), u8({}, {0})})
                .to_ints(),
            (Ints{1, 10, 2, 20}));
}

TEST(QLinearAdd, refuses_wide_integers_and_zero_points_of_another_type) {
  const Tensor scale = f32({}, {0.5}), x = u8({2}, {1, 2}), zero = u8({}, {1});
  const std::string add = "com.microsoft:QLinearAdd";
  expect_near(run(add, {x, scale, zero, x, scale, zero, scale, zero}).cast(DType::f32), {2}, {1, 3});
  expect_error("input 0 is i64, expected an integer of 8 or 16 bits", [&] {
    run(add, {i64({2}, {1, 2}), scale, i64({}, {int64_t{1} << 40}), x, scale, zero, scale, zero});
  });
  expect_error("input 7 is i64", [&] { run(add, {x, scale, zero, x, scale, zero, scale, i64({}, {1})}); });
  expect_error("are u8 and i8", [&] { run(add, {x, scale, i8({}, {1}), x, scale, zero, scale, zero}); });
}

TEST(QGemm, is_float_without_an_output_scale) {
  expect_near(
      run("com.microsoft:QGemm",
          {u8({1, 1}, {3}), f32({}, {0.5}), u8({}, {1}), u8({2, 1}, {3, 4}), f32({2}, {1, 2}), u8({2}, {1, 2}), i32({2}, {0, 1})},
          {{"transB", int64_t{1}}}),
      {1, 2}, {2, 5});
}

}  // namespace
}  // namespace smelt::ops::test
