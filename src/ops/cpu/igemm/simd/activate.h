// What is applied to sums in registers; for *.simd.cpp sources compiled with AVX2.
#pragma once

#include <immintrin.h>

#include "ops/cpu/igemm/simd/tile.h"

namespace smelt::avx2 {

inline __attribute__((always_inline)) __m256 activate(__m256 x, const ops::igemm::Ending& end) {
  using ops::igemm::Activation;
  switch (end.activation) {
    case Activation::none: return x;
    // The bounds come first: min and max return their second operand when either is NaN, so a NaN passes through.
    case Activation::clamp: return _mm256_min_ps(_mm256_set1_ps(end.high), _mm256_max_ps(_mm256_set1_ps(end.low), x));
    case Activation::hard_swish: {
      const __m256 gate = _mm256_fmadd_ps(x, _mm256_set1_ps(1.0f / 6), _mm256_set1_ps(0.5f));
      return _mm256_mul_ps(x, _mm256_min_ps(_mm256_max_ps(gate, _mm256_setzero_ps()), _mm256_set1_ps(1.0f)));
    }
  }
  return x;
}

inline __attribute__((always_inline)) __m256 apply(__m256 x, const ops::igemm::Ending& end) {
  x = activate(x, end);
  if (!end.is_scaled) return x;
  x = _mm256_mul_ps(x, _mm256_set1_ps(end.scale));
  asm("" : "+x"(x));  // no multiply-add: the product is rounded, as in the program
  return _mm256_add_ps(x, _mm256_set1_ps(end.shift));
}

}  // namespace smelt::avx2

#ifdef __AVX512F__
namespace smelt::avx512 {

/// The same of 16 numbers.
inline __attribute__((always_inline)) __m512 apply(__m512 x, const ops::igemm::Ending& end) {
  using ops::igemm::Activation;
  if (end.activation == Activation::clamp) {
    x = _mm512_min_ps(_mm512_set1_ps(end.high), _mm512_max_ps(_mm512_set1_ps(end.low), x));
  } else if (end.activation == Activation::hard_swish) {
    const __m512 gate = _mm512_fmadd_ps(x, _mm512_set1_ps(1.0f / 6), _mm512_set1_ps(0.5f));
    x = _mm512_mul_ps(x, _mm512_min_ps(_mm512_max_ps(gate, _mm512_setzero_ps()), _mm512_set1_ps(1.0f)));
  }
  if (!end.is_scaled) return x;
  x = _mm512_mul_ps(x, _mm512_set1_ps(end.scale));
  asm("" : "+v"(x));  // no multiply-add: the product is rounded, as in the program
  return _mm512_add_ps(x, _mm512_set1_ps(end.shift));
}

}  // namespace smelt::avx512
#endif
