// Floats to bytes with AVX-512: 64 at a time, with the bytes of the narrower loop.
#ifdef __AVX2__
#include <immintrin.h>

#include <cstdint>

#include "expr/simd/isa.h"
#include "ops/cpu/integer/simd/bytes.h"
#include "ops/cpu/integer/simd/quantize.h"

#define SMELT_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))

namespace smelt::avx2 {
namespace {

SMELT_WIDE void wide(const ops::integer::Requantization& r, const float* from, int64_t n, uint8_t* to) {
  const __m512 inverse = _mm512_set1_ps(1 / r.divisor), low = _mm512_set1_ps(r.low), high = _mm512_set1_ps(r.high),
               half = _mm512_set1_ps(next_to_half);
  const __m512i zero = _mm512_set1_epi32(r.zero);
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    uint32_t doubtful = 0;
#pragma GCC unroll 4
    for (int64_t j = i; j < i + 64; j += 16) {
      const __m512 v = _mm512_min_ps(high, _mm512_max_ps(low, _mm512_mul_ps(_mm512_loadu_ps(from + j), inverse)));
      const __m512 distance = _mm512_abs_ps(_mm512_reduce_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
      doubtful |= _mm512_cmp_ps_mask(distance, half, _CMP_NLE_UQ);
      const __m512i whole = _mm512_add_epi32(_mm512_cvtps_epi32(v), zero);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + j), _mm512_cvtepi32_epi8(whole));
    }
    if (__builtin_expect(doubtful != 0, 0)) quantize(r, from + i, 64, to + i);
  }
  if (i < n) quantize(r, from + i, n - i, to + i);
}

}  // namespace

decltype(&quantize) widest_quantize() { return simd::widest() == simd::Isa::avx512 ? wide : quantize; }

}  // namespace smelt::avx2
#endif
