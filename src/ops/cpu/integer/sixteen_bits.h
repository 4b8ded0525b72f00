// What vpmaddubsw's sums of two products of bytes hold.
#pragma once

#include <algorithm>
#include <cstdint>

namespace smelt::ops::integer {

/// Two weights of one sign that sum to this fit its 16 bits by any unsigned bytes: 255 times as much is 32640.
inline constexpr int32_t most_of_one_sign = 128;

/// How much the two weights are beyond that among those of one sign (1 or -1); not above 0 where they fit.
constexpr int32_t beyond_16_bits(int32_t first, int32_t second, int32_t sign) {
  return std::max(0, sign * first) + std::max(0, sign * second) - most_of_one_sign;
}

}  // namespace smelt::ops::integer
