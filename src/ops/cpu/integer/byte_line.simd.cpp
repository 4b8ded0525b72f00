#include "ops/cpu/integer/simd/byte_line.h"

#ifdef __AVX2__
#include <cstring>

#include "ops/cpu/integer/simd/bytes.h"

namespace smelt::avx2 {
namespace {

using ops::integer::ByteLine;

constexpr int64_t width = 32;

template <bool from_signed, bool to_signed>
inline __attribute__((always_inline)) void of_register(uint8_t* to, const uint8_t* from, __m256i less, __m256 by, __m256i zero) {
  __m256i q[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + 8 * k));
    const __m256 x = _mm256_cvtepi32_ps(_mm256_sub_epi32(to_32<from_signed>(bytes), less));
    q[k] = _mm256_cvtps_epi32(_mm256_mul_ps(x, by));
  }
  const __m256i a = _mm256_adds_epi16(_mm256_packs_epi32(q[0], q[1]), zero),
                b = _mm256_adds_epi16(_mm256_packs_epi32(q[2], q[3]), zero);
  const __m256i all = to_signed ? _mm256_packs_epi16(a, b) : _mm256_packus_epi16(a, b);
  store32(to, _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}

template <bool from_signed, bool to_signed> void along_line(const ByteLine& line, uint8_t* to, const uint8_t* from, int64_t n) {
  const __m256i less = _mm256_set1_epi32(line.less), zero = _mm256_set1_epi16(static_cast<int16_t>(line.zero));
  const __m256 by = _mm256_set1_ps(line.by);
  int64_t i = 0;
  for (; i + width <= n; i += width) of_register<from_signed, to_signed>(to + i, from + i, less, by, zero);
  if (i == n) return;
  uint8_t last[width] = {};
  std::memcpy(last, from + i, static_cast<size_t>(n - i));
  of_register<from_signed, to_signed>(last, last, less, by, zero);
  std::memcpy(to + i, last, static_cast<size_t>(n - i));
}

}  // namespace

void along(const ByteLine& line, uint8_t* to, const uint8_t* from, int64_t n) {
  constexpr decltype(&along) forms[2][2] = {{along_line<false, false>, along_line<false, true>},
                                            {along_line<true, false>, along_line<true, true>}};
  forms[line.from_signed][line.to_signed](line, to, from, n);
}

void choose(uint8_t* to, const uint8_t* chosen, const uint8_t* a, const uint8_t* b, int64_t n) {
  int64_t i = 0;
  for (; i + width <= n; i += width) {
    const __m256i none = _mm256_cmpeq_epi8(load32(chosen + i), _mm256_setzero_si256());
    store32(to + i, _mm256_blendv_epi8(load32(a + i), load32(b + i), none));
  }
  for (; i < n; ++i) to[i] = chosen[i] ? a[i] : b[i];
}

}  // namespace smelt::avx2
#endif
