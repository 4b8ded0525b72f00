#include "expr/simd/look_up.h"

#include <cstring>

#ifdef __AVX2__
#include <immintrin.h>

#include "expr/simd/isa.h"

#define SMELT_PERMUTES __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")))
#endif

namespace smelt::SMELT_ISA {
namespace {

void one_by_one(uint8_t* to, const uint8_t* from, int64_t n, const uint8_t* table) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t in, out = 0;
    std::memcpy(&in, from + i, 8);
#pragma GCC unroll 8
    for (int b = 0; b < 64; b += 8) out |= static_cast<uint64_t>(table[in >> b & 255]) << b;
    std::memcpy(to + i, &out, 8);
  }
  for (; i < n; ++i) to[i] = table[from[i]];
}

#ifdef __AVX2__
/// Row `row` of the table's sixteen, of 16 bytes each, by the elements' lower halves.
inline __attribute__((always_inline)) __m256i of_row(const uint8_t* table, int row, __m256i low) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table + 16 * row))),
                             low);
}

/// Of 2^bits rows from `row` on the one that so many upper bits choose, the highest of them last; a blend reads bytes' highest bits.
template <int bits> inline __attribute__((always_inline)) __m256i of_rows(const uint8_t* table, int row, __m256i x, __m256i low) {
  if constexpr (bits == 0) {
    return of_row(table, row, low);
  } else {
    const __m256i first = of_rows<bits - 1>(table, row, x, low),
                  second = of_rows<bits - 1>(table, row + (1 << (bits - 1)), x, low);
    return _mm256_blendv_epi8(first, second, bits == 4 ? x : _mm256_slli_epi16(x, 4 - bits));
  }
}

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
#endif

}  // namespace

#ifdef __AVX2__
void look_up(uint8_t* to, const uint8_t* from, int64_t n, const uint8_t* table) {
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi8(15));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), of_rows<4>(table, 0, x, low));
  }
  one_by_one(to + i, from + i, n - i, table);
}

expr::LookUp wide_look_up() {
  return simd::widest() == simd::Isa::avx512 && __builtin_cpu_supports("avx512vbmi") ? by_permutations : nullptr;
}

expr::LookUp best_look_up() {
  static const expr::LookUp wide = wide_look_up();
  return wide ? wide : look_up;
}
#else
void look_up(uint8_t* to, const uint8_t* from, int64_t n, const uint8_t* table) { one_by_one(to, from, n, table); }
#endif

}  // namespace smelt::SMELT_ISA
