// AVX2's vectors of f32, 16-bit and 32-bit lanes under the same names, for kernels that are written once for several of them.
// For *.simd.cpp sources compiled with AVX2.
#pragma once

#include <immintrin.h>

namespace smelt::avx2 {

struct F32Lanes {
  using Vector = __m256;
  static __attribute__((always_inline)) Vector load(const float* p) { return _mm256_loadu_ps(p); }
  static __attribute__((always_inline)) void store(float* p, Vector v) { _mm256_storeu_ps(p, v); }
  static __attribute__((always_inline)) Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  static __attribute__((always_inline)) Vector sub(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
};

struct IntegerLanes {
  using Vector = __m256i;
  static __attribute__((always_inline)) Vector load(const void* p) { return _mm256_loadu_si256(static_cast<const Vector*>(p)); }
  static __attribute__((always_inline)) void store(void* p, Vector v) { _mm256_storeu_si256(static_cast<Vector*>(p), v); }
};

struct I16Lanes : IntegerLanes {
  static __attribute__((always_inline)) Vector add(Vector a, Vector b) { return _mm256_add_epi16(a, b); }
  static __attribute__((always_inline)) Vector sub(Vector a, Vector b) { return _mm256_sub_epi16(a, b); }
};

struct I32Lanes : IntegerLanes {
  static __attribute__((always_inline)) Vector add(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
  static __attribute__((always_inline)) Vector sub(Vector a, Vector b) { return _mm256_sub_epi32(a, b); }
};

/// 32-bit lanes below n set.
inline __attribute__((always_inline)) __m256i lanes_below(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

}  // namespace smelt::avx2
