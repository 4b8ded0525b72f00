#include "ops/conv/simd/integer_taps.h"

#include "expr/simd/vec.h"

namespace smelt::SMELT_ISA {
namespace {

constexpr int64_t block = ops::integer_taps_block;

/// Sums of a block of elements: two taps' elements side by side are multiplied and added at once.
struct Sums {
#ifdef __AVX2__
  __m256i low, high;  // elements 0-3 and 8-11; 4-7 and 12-15

  SMELT_INLINE void clear() { low = high = _mm256_setzero_si256(); }
  SMELT_INLINE void add(const int16_t* a, const int16_t* b, int32_t pair) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a)),
                  y = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)), w = _mm256_set1_epi32(pair);
    low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(x, y), w));
    high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(x, y), w));
  }
  SMELT_INLINE void store(int32_t* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), _mm256_permute2x128_si256(low, high, 0x31));
  }
#else
  __m128i sums[4];

  SMELT_INLINE void clear() {
    for (__m128i& s : sums) s = _mm_setzero_si128();
  }
  SMELT_INLINE void add(const int16_t* a, const int16_t* b, int32_t pair) {
    const __m128i w = _mm_set1_epi32(pair);
    for (int h = 0; h < 2; ++h) {
      const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a + 8 * h)),
                    y = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + 8 * h));
      sums[2 * h] = _mm_add_epi32(sums[2 * h], _mm_madd_epi16(_mm_unpacklo_epi16(x, y), w));
      sums[2 * h + 1] = _mm_add_epi32(sums[2 * h + 1], _mm_madd_epi16(_mm_unpackhi_epi16(x, y), w));
    }
  }
  SMELT_INLINE void store(int32_t* to) const {
    for (int i = 0; i < 4; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 4 * i), sums[i]);
  }
#endif
};

template <int blocks>
SMELT_INLINE void fold_blocks(const int16_t* from, const int64_t* offsets, const int32_t* pairs, int64_t count, int32_t* sums) {
  Sums all[blocks];
  for (Sums& s : all) s.clear();
  for (int64_t k = 0; k < count; ++k)
    for (int i = 0; i < blocks; ++i)
      all[i].add(from + offsets[2 * k] + i * block, from + offsets[2 * k + 1] + i * block, pairs[k]);
  for (int i = 0; i < blocks; ++i) all[i].store(sums + i * block);
}

void fold(const int16_t* from, const int64_t* offsets, const int32_t* pairs, int64_t count, bool adds, int64_t n, int32_t* to) {
  int64_t o = 0;
  for (; o + 2 * block <= n && !adds; o += 2 * block) fold_blocks<2>(from + o, offsets, pairs, count, to + o);
  for (; o < n; o += block) {
    int32_t sums[block];
    fold_blocks<1>(from + o, offsets, pairs, count, sums);
    const int64_t some = n - o < block ? n - o : block;
    for (int64_t i = 0; i < some; ++i)
      to[o + i] = static_cast<int32_t>((adds ? static_cast<uint32_t>(to[o + i]) : 0) + static_cast<uint32_t>(sums[i]));
  }
}

template <class T> SMELT_INLINE void widen_of(const T* x, int64_t step, int32_t zero, int64_t n, int16_t* to) {
  if (step == 1)
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int16_t>(x[i] - zero);
  else
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int16_t>(x[i * step] - zero);
}

void widen(const uint8_t* x, int64_t step, bool is_signed, int32_t zero, int64_t n, int16_t* to) {
  if (is_signed)
    widen_of(reinterpret_cast<const int8_t*>(x), step, zero, n, to);
  else
    widen_of(x, step, zero, n, to);
}

}  // namespace

const ops::IntegerTaps& integer_taps() {
  static constexpr ops::IntegerTaps table = {fold, widen};
  return table;
}

}  // namespace smelt::SMELT_ISA
