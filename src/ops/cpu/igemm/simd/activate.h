// What is applied to sums in registers; for *.simd.cpp sources compiled with AVX2.
#pragma once

#include <immintrin.h>

#include "ops/cpu/igemm/simd/tile.h"

namespace smelt::avx2 {

inline __attribute__((always_inline)) __m256 activate(__m256 x, ops::igemm::Activation activation, float low, float high) {
  using ops::igemm::Activation;
  switch (activation) {
    case Activation::none: return x;
    // The bounds come first: min and max return their second operand when either is NaN, so a NaN passes through.
    case Activation::clamp: return _mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), x));
    case Activation::hard_swish: {
      const __m256 gate = _mm256_fmadd_ps(x, _mm256_set1_ps(1.0f / 6), _mm256_set1_ps(0.5f));
      return _mm256_mul_ps(x, _mm256_min_ps(_mm256_max_ps(gate, _mm256_setzero_ps()), _mm256_set1_ps(1.0f)));
    }
  }
  return x;
}

}  // namespace smelt::avx2
