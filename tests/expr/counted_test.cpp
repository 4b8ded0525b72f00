// Rounding by the least floats gives the bytes that rounding, adding and saturating give.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "kernels/common/counted.h"

namespace smelt::expr {
namespace {

/// Saturated to first … last, as smelt_expr::quantized_near has it; and as ONNX defines it.
int32_t by_bits(float x, int32_t more, int32_t first, int32_t last) {
  return std::clamp(std::bit_cast<int32_t>(kernels::counted(x, static_cast<float>(more))), first, last);
}
int32_t defined(float x, int32_t more, int32_t first, int32_t last) {
  const double sum = std::nearbyint(static_cast<double>(x)) + more;
  return static_cast<int32_t>(std::clamp(sum, static_cast<double>(first), static_cast<double>(last)));
}

int64_t wrong(float x) {
  int64_t count = 0;
  for (const int32_t more : {0, 2, 100, 128, 254, 256}) count += by_bits(x, more, 0, 255) != defined(x, more, 0, 255);
  if (!(x < 0))
    for (const int32_t more : {0, 2, 126}) count += by_bits(x, more, -128, 127) != defined(x, more, -128, 127);
  return count;
}

TEST(Counted, has_the_bytes_of_rounding_halves_to_even) {
  int64_t count = 0;
  for (int k = -2200; k <= 2200; ++k) {  // quarters, halves among them, and next to there
    const float x = static_cast<float>(k) / 4;
    for (const float near : {x, std::nextafter(x, 1e30f), std::nextafter(x, -1e30f)}) count += wrong(near);
  }
  std::mt19937 random(3);
  for (int k = 0; k < 2'000'000; ++k) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (x == x) count += wrong(x);
  }
  constexpr float most = std::numeric_limits<float>::max(), infinity = std::numeric_limits<float>::infinity();
  for (const float x : {0.f, -0.f, most, -most, infinity, -infinity, 8388607.5f, 8388608.f, 16777216.f, 1e-45f, -1e-45f})
    count += wrong(x);
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace smelt::expr
