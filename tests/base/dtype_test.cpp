#include "smelt/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/minifloat.h"
#include "smelt/error.h"

namespace smelt {
namespace {

TEST(DType, every_name_reads_back) {
  for (int i = 1; i <= 26; ++i) {
    const auto t = static_cast<DType>(i);
    ASSERT_TRUE(parse_dtype(name(t)).has_value()) << name(t);
    EXPECT_EQ(*parse_dtype(name(t)), t);
  }
  EXPECT_FALSE(parse_dtype("float"));
  EXPECT_FALSE(parse_dtype(""));
}

TEST(DType, refuses_a_number_that_onnx_does_not_define) { EXPECT_THROW(bits(static_cast<DType>(99)), Error); }

TEST(DType, packs_narrow_elements) {
  EXPECT_EQ(bytes(DType::i4, 5), 3);
  EXPECT_EQ(bytes(DType::u2, 5), 2);
  EXPECT_EQ(bytes(DType::f32, 5), 20);
  EXPECT_EQ(bytes(DType::f32, 0), 0);
}

TEST(DType, refuses_a_size_that_overflows) {
  EXPECT_THROW(bytes(DType::f64, INT64_MAX / 8), Error);
  EXPECT_THROW(bytes(DType::f32, -1), Error);
}

TEST(DType, knows_floats_integers_and_signs) {
  EXPECT_TRUE(is_float(DType::f4e2m1) && is_float(DType::bf16) && !is_float(DType::i8));
  EXPECT_TRUE(is_integer(DType::u2) && !is_integer(DType::boolean) && !is_integer(DType::string));
  EXPECT_TRUE(is_signed(DType::i4) && is_signed(DType::f16) && !is_signed(DType::u8) && !is_signed(DType::f8e8m0));
}

TEST(Half, every_code_survives_the_way_through_float) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const float v = half_to_float(static_cast<uint16_t>(code));
    if (std::isnan(v))
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(v))));
    else
      EXPECT_EQ(float_to_half(v), code);
    EXPECT_TRUE(std::isnan(v) || v == decode(mini_float(DType::f16), code)) << code;
  }
}

TEST(Half, rounds_to_nearest_even) {
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f), 0x3c00);  // a tie, to even
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);
  EXPECT_EQ(float_to_half(1.0f + 0x3p-11f), 0x3c02);  // a tie, to even
  EXPECT_EQ(float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(1e10f), 0x7c00);
  EXPECT_EQ(float_to_half(0x1p-25f), 0);  // half of the smallest, a tie
  EXPECT_EQ(float_to_half(-0x1.8p-25f), 0x8001);
}

TEST(Half, agrees_with_the_general_encoder_on_many_floats) {
  for (uint32_t i = 0; i < 200000; ++i) {
    const float v = std::bit_cast<float>(i * 21473u);
    if (std::isnan(v)) continue;
    EXPECT_EQ(float_to_half(v), encode(mini_float(DType::f16), v, false)) << v;
    EXPECT_EQ(float_to_bfloat(v), encode(mini_float(DType::bf16), v, false)) << v;
  }
}

TEST(BFloat, keeps_nan_and_rounds_to_nearest_even) {
  EXPECT_TRUE(std::isnan(bfloat_to_float(float_to_bfloat(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(float_to_bfloat(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(float_to_bfloat(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(float_to_bfloat(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(MiniFloat, every_code_survives_the_way_through_double) {
  for (DType t : {DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::f4e2m1}) {
    for (uint32_t code = 0; code < 1u << bits(t); ++code) {
      const double v = decode(mini_float(t), code);
      if (std::isnan(v))
        EXPECT_TRUE(std::isnan(decode(mini_float(t), encode(mini_float(t), v, false))));
      else
        EXPECT_EQ(encode(mini_float(t), v, false), code) << name(t) << " " << v;
    }
  }
}

TEST(MiniFloat, many_numbers_at_a_time_are_encoded_as_one_by_one) {
  std::vector<float> values;
  for (uint32_t high = 0; high < 1u << 16; ++high)  // all exponents, with bits at and beside what halves and ties need
    for (uint32_t low : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(std::bit_cast<float>(high << 16 | low));
  std::vector<uint8_t> codes(values.size());
  for (DType t : {DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz})
    for (bool saturate : {false, true}) {
      encode(mini_float(t), values.data(), static_cast<int64_t>(values.size()), saturate, codes.data());
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(codes[i], encode(mini_float(t), values[i], saturate)) << name(t) << " " << values[i] << " " << saturate;
    }
}

TEST(MiniFloat, largest_numbers_are_those_of_the_formats) {
  EXPECT_EQ(decode(mini_float(DType::f8e4m3fn), 0x7e), 448);
  EXPECT_EQ(decode(mini_float(DType::f8e4m3fnuz), 0x7f), 240);
  EXPECT_EQ(decode(mini_float(DType::f8e5m2), 0x7b), 57344);
  EXPECT_EQ(decode(mini_float(DType::f8e5m2fnuz), 0x7f), 57344);
  EXPECT_EQ(decode(mini_float(DType::f4e2m1), 7), 6);
}

TEST(MiniFloat, saturates_or_not) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(encode(mini_float(DType::f8e4m3fn), 1e6, true), 0x7e);
  EXPECT_EQ(encode(mini_float(DType::f8e4m3fn), 1e6, false), 0x7f);  // NaN
  EXPECT_EQ(encode(mini_float(DType::f8e5m2), -inf, true), 0xfb);
  EXPECT_EQ(encode(mini_float(DType::f8e5m2), -1e6, false), 0xfc);     // -infinity
  EXPECT_EQ(encode(mini_float(DType::f8e4m3fnuz), inf, false), 0x80);  // NaN
  EXPECT_EQ(encode(mini_float(DType::f4e2m1), 100, false), 7);
}

TEST(MiniFloat, unsigned_zero_formats_have_no_minus_zero) {
  EXPECT_EQ(encode(mini_float(DType::f8e5m2fnuz), -0.0, true), 0);
  EXPECT_EQ(encode(mini_float(DType::f8e5m2fnuz), -1e-9, true), 0);
  EXPECT_EQ(encode(mini_float(DType::f8e4m3fn), -0.0, true), 0x80);
}

TEST(MiniFloat, scales_round_as_asked) {
  EXPECT_EQ(encode_e8m0(1.1f, {}), 128);
  EXPECT_EQ(encode_e8m0(1.1f, {.rounding = CastOptions::down}), 127);
  EXPECT_EQ(encode_e8m0(1.1f, {.rounding = CastOptions::nearest}), 127);
  EXPECT_EQ(encode_e8m0(1.5f, {.rounding = CastOptions::nearest}), 128);
  EXPECT_EQ(encode_e8m0(0.0f, {}), 0);
  EXPECT_EQ(encode_e8m0(std::numeric_limits<float>::infinity(), {}), 255);
  EXPECT_EQ(encode_e8m0(std::numeric_limits<float>::max(), {}), 254);
  EXPECT_EQ(decode_e8m0(130), 8);
  EXPECT_TRUE(std::isnan(decode_e8m0(255)));
}

}  // namespace
}  // namespace smelt
