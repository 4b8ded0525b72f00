// A square of floats in registers, its rows as columns. For *.simd.cpp sources only (isa.h).
#pragma once

#include "expr/simd/vec.h"

// Before a loop over registers: they stay registers only where it is unrolled, which GCC at -O2 does not do by itself.
#define SMELT_UNROLL _Pragma("GCC unroll 8")

namespace smelt::SMELT_ISA {

/// Lane i of register j becomes lane j of register i.
#ifdef __AVX2__
SMELT_INLINE void transpose(F32 (&v)[lanes]) {
  __m256 pairs[8], fours[8];
  SMELT_UNROLL
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(v[i].v, v[i + 1].v);
    pairs[i + 1] = _mm256_unpackhi_ps(v[i].v, v[i + 1].v);
  }
  SMELT_UNROLL
  for (int i = 0; i < 8; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
  SMELT_UNROLL
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    v[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
}
#else
SMELT_INLINE void transpose(F32 (&v)[lanes]) { _MM_TRANSPOSE4_PS(v[0].v, v[1].v, v[2].v, v[3].v); }
#endif

}  // namespace smelt::SMELT_ISA
