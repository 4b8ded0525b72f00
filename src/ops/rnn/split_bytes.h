// Weights of bytes as sums of two, where products are added in 16 bits (simd/byte_products.h).
#pragma once

#include <cstdint>

#include "ops/cpu/integer/sixteen_bits.h"

namespace smelt::ops {

/// Of [lanes][4] weights, whose neighbours are multiplied by bytes of up to 255 and added up in 16 bits: whether two of one sign are too
/// large for that. Then each is halved, and `rest` gets the other halves.
inline bool split_block(int8_t* block, int64_t lanes, int8_t* rest) {
  bool fits = true;
  for (int64_t i = 0; i < 4 * lanes; i += 2)
    for (const int32_t sign : {1, -1}) fits = fits && integer::beyond_16_bits(block[i], block[i + 1], sign) <= 0;
  if (fits) return false;
  for (int64_t i = 0; i < 4 * lanes; ++i) {
    const int half = block[i] >> 1;
    rest[i] = static_cast<int8_t>(block[i] - half);
    block[i] = static_cast<int8_t>(half);
  }
  return true;
}

}  // namespace smelt::ops
