// A depthwise window of bytes with AVX-512: 32 channels at a time, with the sums of the narrower kernel.
#ifdef __AVX2__
#include <immintrin.h>

#include <cstdint>

#include "expr/simd/isa.h"
#include "ops/cpu/integer/simd/rows.h"

#define SMELT_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define SMELT_WIDE_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

namespace smelt::avx2 {
namespace {

using ops::integer::DepthwisePixels;

/// The most pairs of taps whose weights stay in registers: a window of 3 x 3 has 5.
constexpr int most_kept = 5;

/// Of two blocks of 16 channels, `apart` numbers from each other.
SMELT_WIDE inline __m512i both(const int16_t* from, int64_t apart) {
  const __m512i first = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  return _mm512_inserti64x4(first, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + apart)), 1);
}

template <bool is_signed> SMELT_WIDE inline __m512i to_16(const uint8_t* from) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return is_signed ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes);
}

/// sum + the two products of a pair of taps.
SMELT_WIDE inline __m512i added(__m512i sum, __m512i a, __m512i b) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)); }
SMELT_WIDE_DOT inline __m512i dotted(__m512i sum, __m512i a, __m512i b) { return _mm512_dpwssd_epi32(sum, a, b); }

// Channels c to c + 31. Taps are interleaved by pairs within quarters: `low` holds channels 0-3, 8-11, 16-19 and 24-27 of them,
// `high` the others.
#define SMELT_DEPTHWISE(name, target, add)                                                                      \
  template <bool is_signed, bool keeps> void target name##_32(const DepthwisePixels& p, int64_t c) {            \
    const int64_t apart = 32 * p.pairs;                                                                         \
    const int16_t* const weights = p.weights + c / 16 * apart;                                                  \
    __m512i low_kept[most_kept], high_kept[most_kept];                                                          \
    if constexpr (keeps) {                                                                                      \
      _Pragma("GCC unroll 5") for (int t = 0; t < most_kept; ++t) {                                             \
        low_kept[t] = both(weights + 32 * t, apart);                                                            \
        high_kept[t] = both(weights + 32 * t + 16, apart);                                                      \
      }                                                                                                         \
    }                                                                                                           \
    const __m512i to_low = _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),         \
                  to_high = _mm512_setr_epi32(4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31),      \
                  to_first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23),         \
                  to_second = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);  \
    const __m512i first = _mm512_loadu_si512(p.start + c), second = _mm512_loadu_si512(p.start + c + 16);       \
    const __m512i low_start = _mm512_permutex2var_epi32(first, to_low, second),                                 \
                  high_start = _mm512_permutex2var_epi32(first, to_high, second);                               \
    int32_t* sums = p.sums + c;                                                                                 \
    int64_t at = c;                                                                                             \
    for (int64_t pixel = 0; pixel < p.pixels; ++pixel, at += p.step, sums += p.sums_step) {                     \
      __m512i low = low_start, high = high_start;                                                               \
      if constexpr (keeps) {                                                                                    \
        _Pragma("GCC unroll 5") for (int t = 0; t < most_kept; ++t) {                                           \
          const __m512i x = to_16<is_signed>(p.taps[2 * t] + at), y = to_16<is_signed>(p.taps[2 * t + 1] + at); \
          low = add(low, _mm512_unpacklo_epi16(x, y), low_kept[t]);                                             \
          high = add(high, _mm512_unpackhi_epi16(x, y), high_kept[t]);                                          \
        }                                                                                                       \
      } else {                                                                                                  \
        for (int64_t t = 0; t < p.pairs; ++t) {                                                                 \
          const __m512i x = to_16<is_signed>(p.taps[2 * t] + at), y = to_16<is_signed>(p.taps[2 * t + 1] + at); \
          low = add(low, _mm512_unpacklo_epi16(x, y), both(weights + 32 * t, apart));                           \
          high = add(high, _mm512_unpackhi_epi16(x, y), both(weights + 32 * t + 16, apart));                    \
        }                                                                                                       \
      }                                                                                                         \
      _mm512_storeu_si512(sums, _mm512_permutex2var_epi32(low, to_first, high));                                \
      _mm512_storeu_si512(sums + 16, _mm512_permutex2var_epi32(low, to_second, high));                          \
    }                                                                                                           \
  }                                                                                                             \
  void name(const DepthwisePixels& p) {                                                                         \
    int64_t c = 0;                                                                                              \
    for (; c + 32 <= p.channels; c += 32) {                                                                     \
      if (p.pairs == most_kept)                                                                                 \
        p.is_signed ? name##_32<true, true>(p, c) : name##_32<false, true>(p, c);                               \
      else                                                                                                      \
        p.is_signed ? name##_32<true, false>(p, c) : name##_32<false, false>(p, c);                             \
    }                                                                                                           \
    if (c < p.channels) depthwise_from(p, c);                                                                   \
  }
SMELT_DEPTHWISE(by_pairs, SMELT_WIDE, added)
SMELT_DEPTHWISE(by_dots, SMELT_WIDE_DOT, dotted)
#undef SMELT_DEPTHWISE

}  // namespace

void (*wide_depthwise())(const DepthwisePixels& p) {
  if (simd::widest() != simd::Isa::avx512) return nullptr;
  return simd::has_dots() ? by_dots : by_pairs;
}

}  // namespace smelt::avx2
#endif
