// Bytes requantized by one product each, and chosen between.
#pragma once

#include <cstdint>

namespace smelt::ops::integer {

/// saturate(round((q - less) · by) + zero). Of 8 bits both, and (q - less) · by is below 2^30.
struct ByteLine {
  float by = 0;
  int32_t less = 0, zero = 0;
  bool from_signed = false, to_signed = false;
};

}  // namespace smelt::ops::integer

namespace smelt::avx2 {
/// `to` may be `from`.
void along(const ops::integer::ByteLine& line, uint8_t* to, const uint8_t* from, int64_t n);
/// to[i] = chosen[i] ? a[i] : b[i]; every byte but 0 is true.
void choose(uint8_t* to, const uint8_t* chosen, const uint8_t* a, const uint8_t* b, int64_t n);
}  // namespace smelt::avx2
