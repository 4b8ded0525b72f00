// Floats to integers of 8, 16, 32 and signed 64 bits, as converted() (scalar.h) has them: toward zero, saturated, 0 for NaN. AVX2 has
// conversions to i32 alone: narrower results are clamped before and packed behind, and i64 is taken from a sum's bits.
#pragma once

#include <limits>

#include "expr/simd/scalar.h"

#ifdef __AVX2__
#include <immintrin.h>

namespace smelt::SMELT_ISA {

#ifdef __AVX512DQ__
inline constexpr bool has_i64 = true;  // an instruction for it, which the compiler uses
#else
inline constexpr bool has_i64 = false;
#endif

template <class From, class To> inline constexpr bool converts_in_registers =
    is_floating<From> && !std::is_same_v<To, bool> &&
    (sizeof(To) <= 2 || std::is_same_v<To, int32_t> || (std::is_same_v<To, int64_t> && !has_i64));

/// Eight numbers as i32, no smaller than `low` and no larger than `high`.
SMELT_INLINE __m256i eight_clamped(const float* a, float low, float high) {
  const __m256 x = _mm256_loadu_ps(a), number = _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
  return _mm256_cvttps_epi32(_mm256_min_ps(_mm256_max_ps(number, _mm256_set1_ps(low)), _mm256_set1_ps(high)));
}
#ifdef __AVX512F__
SMELT_INLINE __m256i eight_clamped(const double* a, double low, double high) {
  const __m512d x = _mm512_loadu_pd(a);
  const __m512d number = _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(x, x, _CMP_ORD_Q), x);
  return _mm512_cvttpd_epi32(_mm512_min_pd(_mm512_max_pd(number, _mm512_set1_pd(low)), _mm512_set1_pd(high)));
}
#else
SMELT_INLINE __m128i four_clamped(const double* a, double low, double high) {
  const __m256d x = _mm256_loadu_pd(a), number = _mm256_and_pd(x, _mm256_cmp_pd(x, x, _CMP_ORD_Q));
  return _mm256_cvttpd_epi32(_mm256_min_pd(_mm256_max_pd(number, _mm256_set1_pd(low)), _mm256_set1_pd(high)));
}
SMELT_INLINE __m256i eight_clamped(const double* a, double low, double high) {
  return _mm256_set_m128i(four_clamped(a + 4, low, high), four_clamped(a, low, high));
}
#endif

/// As many as a register of results has.
template <class To, class From> SMELT_INLINE __m256i narrowed(const From* a) {
  constexpr auto low = static_cast<From>(std::numeric_limits<To>::min()),
                 high = static_cast<From>(std::numeric_limits<To>::max());
  if constexpr (std::is_same_v<To, int32_t> && std::is_same_v<From, float>) {
    // 2^31 - 1 is no f32: what is as large or larger converts to -2^31, of which all bits are turned.
    const __m256 x = _mm256_loadu_ps(a);
    const __m256i large = _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_set1_ps(0x1p31f), _CMP_GE_OQ));
    const __m256i number = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q));
    return _mm256_and_si256(_mm256_xor_si256(_mm256_cvttps_epi32(x), large), number);
  } else if constexpr (sizeof(To) == 4) {
    return eight_clamped(a, low, high);
  } else {
    const __m256i first = eight_clamped(a, low, high), second = eight_clamped(a + 8, low, high);
    if constexpr (sizeof(To) == 2) {
      const __m256i both = std::is_signed_v<To> ? _mm256_packs_epi32(first, second) : _mm256_packus_epi32(first, second);
      return _mm256_permute4x64_epi64(both, 0xD8);  // packed within halves
    } else {
      const __m256i third = eight_clamped(a + 16, low, high), fourth = eight_clamped(a + 24, low, high);
      const __m256i left = _mm256_packs_epi32(first, second), right = _mm256_packs_epi32(third, fourth);
      const __m256i all = std::is_signed_v<To> ? _mm256_packs_epi16(left, right) : _mm256_packus_epi16(left, right);
      return _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    }
  }
}

SMELT_INLINE __m256d four_doubles(const double* a) { return _mm256_loadu_pd(a); }
SMELT_INLINE __m256d four_doubles(const float* a) { return _mm256_cvtps_pd(_mm_loadu_ps(a)); }

/// Four numbers that are all below 2^51: 1.5 * 2^52 and a whole number have the number in the low bits of their sum.
template <class From> SMELT_INLINE bool four_to_i64(const From* a, int64_t* o) {
  const __m256d x = four_doubles(a), shift = _mm256_set1_pd(0x1.8p52);
  const __m256d magnitude = _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
  if (_mm256_movemask_pd(_mm256_cmp_pd(magnitude, _mm256_set1_pd(0x1p51), _CMP_LT_OQ)) != 15) return false;
  const __m256d whole = _mm256_round_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __m256i bits = _mm256_castpd_si256(_mm256_add_pd(whole, shift));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(o), _mm256_sub_epi64(bits, _mm256_castpd_si256(shift)));
  return true;
}

template <class From, class To> SMELT_INLINE void convert_in_registers(const From* a, To* o, int64_t n) {
  int64_t i = 0;
  if constexpr (sizeof(To) == 8) {
    for (; i + 4 <= n; i += 4)
      if (!four_to_i64(a + i, o + i))
        for (int64_t k = i; k < i + 4; ++k) o[k] = converted<To>(a[k]);
  } else {
    constexpr int64_t each = 32 / static_cast<int64_t>(sizeof(To));
    for (; i + each <= n; i += each) _mm256_storeu_si256(reinterpret_cast<__m256i*>(o + i), narrowed<To>(a + i));
  }
  for (; i < n; ++i) o[i] = converted<To>(a[i]);
}

}  // namespace smelt::SMELT_ISA
#endif
