// A square of floats in registers, its rows as columns. For *.simd.cpp sources only (isa.h).
#pragma once

#include "expr/simd/vec.h"

// Before a loop over registers: they stay registers only where it is unrolled, which GCC at -O2 does not do by itself.
#define SMELT_UNROLL _Pragma("GCC unroll 16")

namespace smelt::SMELT_ISA {

/// Lane i of register j becomes lane j of register i.
#if defined(__AVX512F__)
SMELT_INLINE void transpose(F32 (&v)[lanes]) {
  __m512 pairs[16], fours[16];
  SMELT_UNROLL
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(v[i].v, v[i + 1].v);
    pairs[i + 1] = _mm512_unpackhi_ps(v[i].v, v[i + 1].v);
  }
  // Of four rows: a quarter of fours[i + c] has their elements of column c of its four columns.
  SMELT_UNROLL
  for (int i = 0; i < 16; i += 4) {
    fours[i] = _mm512_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm512_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    fours[i + 2] = _mm512_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm512_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
  SMELT_UNROLL
  for (int c = 0; c < 4; ++c) {
    const __m512 upper_left = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0x44);
    const __m512 upper_right = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0xee);
    const __m512 lower_left = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0x44);
    const __m512 lower_right = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0xee);
    v[c] = _mm512_shuffle_f32x4(upper_left, lower_left, 0x88);
    v[4 + c] = _mm512_shuffle_f32x4(upper_left, lower_left, 0xdd);
    v[8 + c] = _mm512_shuffle_f32x4(upper_right, lower_right, 0x88);
    v[12 + c] = _mm512_shuffle_f32x4(upper_right, lower_right, 0xdd);
  }
}
#elif defined(__AVX2__)
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
