// Registers of bytes and of the whole numbers that become bytes; for *.simd.cpp sources compiled with AVX2.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace smelt::avx2 {

inline __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline __m256i load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void store16(void* p, __m128i v) { _mm_storeu_si128(static_cast<__m128i*>(p), v); }
inline void store32(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }

template <bool is_signed> inline __m256i to_16(__m128i bytes) {
  return is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}
template <bool is_signed> inline __m256i to_32(__m128i bytes) {
  return is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
}

/// 8 whole numbers plus the zero point as bytes, which they fit, in the low half.
inline __m128i to_bytes(__m256i q, int32_t zero) {
  const __m256i y = _mm256_and_si256(_mm256_add_epi32(q, _mm256_set1_epi32(zero)), _mm256_set1_epi32(255));
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
  return _mm_packus_epi16(words, words);
}

/// Packs 8 · vectors whole numbers as bytes: packing works within halves, and the last permutation puts groups of 4 in order.
template <int vectors> inline __attribute__((always_inline)) void store_bytes(uint8_t* to, const __m256i* q, __m256i zero) {
  const __m256i low_bytes = _mm256_set1_epi16(255);
  const __m256i a = _mm256_and_si256(_mm256_add_epi16(_mm256_packs_epi32(q[0], q[1]), zero), low_bytes);
  if constexpr (vectors == 4) {
    const __m256i b = _mm256_and_si256(_mm256_add_epi16(_mm256_packs_epi32(q[2], q[3]), zero), low_bytes);
    store32(to, _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  } else {
    const __m256i words = _mm256_packus_epi16(a, a);
    store16(to, _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5))));
  }
}

/// Division by multiplication: the guess is within 2^-14 of the quotient (three roundings of at most 2^-24 each, of numbers up to
/// 256), so that both round to the same whole number unless the guess is nearer than that to a half.
inline constexpr float next_to_half = 0.5f - 0x1p-13f;

}  // namespace smelt::avx2
