// Division by a constant as the GPU's quantisations do it gives the bits of the division.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>

#include "kernels/common/exact_division.h"

namespace smelt::expr {
namespace {

float with_mantissa(uint32_t exponent, uint32_t mantissa) { return std::bit_cast<float>(exponent << 23 | (mantissa & 0x7fffff)); }

TEST(Division, by_one_correction_has_the_bits_of_the_quotient) {
  std::mt19937 random(5);
  int64_t wrong = 0;
  for (uint32_t i = 0; i < 200; ++i) {
    // The last mantissas are those for which fewer steps would err; then any.
    const float b = with_mantissa(67 + random() % 121, i < 20 ? 0x7fffff - i : i < 40 ? i - 20 : static_cast<uint32_t>(random()));
    for (int k = 0; k < 20'000; ++k) {
      const float a = with_mantissa(107 + random() % 40, static_cast<uint32_t>(random())) * (k % 2 ? 1.f : -1.f);
      wrong += kernels::over(a, b, 1 / b) != a / b;
    }
    for (int k = -600; k <= 600; ++k) {  // quotients halfway between whole numbers, and next to there
      const float near = static_cast<float>(k) / 2 * b;
      for (const float a : {near, std::nextafter(near, 1e30f), std::nextafter(near, -1e30f)})
        wrong += kernels::over(a, b, 1 / b) != a / b;
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace smelt::expr
