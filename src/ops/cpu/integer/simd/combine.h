// Two rows of bytes dequantized, added or multiplied, and quantized.
#pragma once

#include "ops/cpu/integer/simd/rows.h"

namespace smelt::ops::integer {

/// v = (a - zero_a) · scale_a + (b - zero_b) · scale_b, or the product of the two; y = clamp(round(v / divisor), low, high) + zero,
/// every step rounded as IEEE f32 rounds it.
struct Combination {
  struct Side {
    int32_t zero = 0;
    float scale = 1;
    bool is_signed = false;
  };
  Side sides[2];
  bool multiplies = false;
  float divisor = 1, low = 0, high = 0;
  int32_t zero = 0;
  bool is_sure = false;  // combines_surely()
};

/// A row of bytes, or one byte for all columns.
struct CombinedRow {
  const uint8_t* bytes;
  bool repeats;
};

}  // namespace smelt::ops::integer

namespace smelt::avx2 {
/// A row of n; `to` may be where a row lies that does not repeat.
void combine(const ops::integer::Combination& c, ops::integer::CombinedRow a, ops::integer::CombinedRow b, int64_t n,
             uint8_t* to);
/// Whether multiplication by what the scales are of the divisor gives the result of every pair of bytes.
bool combines_surely(const ops::integer::Combination& c);
}  // namespace smelt::avx2
namespace smelt::avx512 {
void combine(const ops::integer::Combination& c, ops::integer::CombinedRow a, ops::integer::CombinedRow b, int64_t n,
             uint8_t* to);
/// Whether multiplication by what the scales are of the divisor gives the result of every pair of bytes.
bool combines_surely(const ops::integer::Combination& c);
}  // namespace smelt::avx512
