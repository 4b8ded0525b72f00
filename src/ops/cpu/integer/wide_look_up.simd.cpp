// Tables of all bytes with AVX-512's permutations of 64 bytes, which are of VBMI.
#ifdef __AVX2__
#include <immintrin.h>

#include <cstdint>

#include "expr/simd/isa.h"
#include "ops/cpu/integer/simd/rows.h"

#define SMELT_PERMUTES __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")))

namespace smelt::avx2 {
namespace {

/// A permutation reads 7 bits of an index; the eighth chooses between the table's halves.
SMELT_PERMUTES void by_permutations(uint8_t* to, const uint8_t* from, int64_t n, const uint8_t* table) {
  const __m512i a = _mm512_loadu_si512(table), b = _mm512_loadu_si512(table + 64), c = _mm512_loadu_si512(table + 128),
                d = _mm512_loadu_si512(table + 192);
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 lanes = n - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (n - i)) - 1;
    const __m512i x = _mm512_maskz_loadu_epi8(lanes, from + i);
    const __m512i low = _mm512_permutex2var_epi8(a, x, b), high = _mm512_permutex2var_epi8(c, x, d);
    _mm512_mask_storeu_epi8(to + i, lanes, _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high));
  }
}

}  // namespace

void (*wide_look_up())(uint8_t* to, const uint8_t* from, int64_t n, const uint8_t* table) {
  return simd::widest() == simd::Isa::avx512 && __builtin_cpu_supports("avx512vbmi") ? by_permutations : nullptr;
}

}  // namespace smelt::avx2
#endif
