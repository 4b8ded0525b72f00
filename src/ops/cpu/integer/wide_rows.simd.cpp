// Rows of sums to bytes and of bytes to floats with AVX-512: 64 at a time, with the results of the narrower loops.
#ifdef __AVX2__
#ifndef __clang__  // GCC 12 warns of its own header, where that makes a register of nothing
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "expr/simd/isa.h"
#include "ops/cpu/integer/simd/bytes.h"
#include "ops/cpu/integer/simd/requantize.h"

#define SMELT_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define SMELT_WIDE_INLINE SMELT_WIDE inline __attribute__((always_inline))

namespace smelt::avx2 {
namespace {

using ops::integer::Requantization;
using ops::integer::SumRows;

constexpr int64_t lanes = 16;

SMELT_WIDE_INLINE __mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>((1u << std::min(n, lanes)) - 1); }

/// A requantization's numbers in registers.
struct Wide {
  const float *scales, *addends, *multipliers;
  int64_t each;  // every bit where columns have numbers of their own, none where all have the same
  __m512 inverse, low, high, scale2, residual_scale, inverse2, low2, high2;
  __m512i residual_zero, zero;
  SMELT_WIDE explicit Wide(const Requantization& r)
      : scales(r.scales),
        addends(r.addends),
        multipliers(r.multipliers),
        each(r.same_for_all ? 0 : -1),
        inverse(_mm512_set1_ps(r.inverse)),
        low(_mm512_set1_ps(r.low)),
        high(_mm512_set1_ps(r.high)),
        scale2(_mm512_set1_ps(r.scale2)),
        residual_scale(_mm512_set1_ps(r.residual_scale)),
        inverse2(_mm512_set1_ps(r.inverse2)),
        low2(_mm512_set1_ps(r.low2)),
        high2(_mm512_set1_ps(r.high2)),
        residual_zero(_mm512_set1_epi32(r.residual_zero)),
        zero(_mm512_set1_epi32(r.zero)) {}
};

/// `distance`: the largest from a whole number.
SMELT_WIDE_INLINE __m512i rounded(__m512 guess, __m512 low, __m512 high, __m512& distance) {
  guess = _mm512_min_ps(_mm512_max_ps(guess, low), high);
  const __m512 rest = _mm512_reduce_ps(guess, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  distance = _mm512_max_ps(distance, _mm512_abs_ps(rest));
  return _mm512_cvtps_epi32(guess);
}

template <bool is_signed> SMELT_WIDE_INLINE __m512i widened(__m128i bytes) {
  return is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
}

/// A row and where it goes, from its first column on.
struct Row {
  const int32_t *sums, *start;
  const uint8_t* residual;
  uint8_t* to;
  int64_t column;
};

/// 16 columns from `i` on, those of `mask`, as guesses; nothing beyond them is read. Bytes may go where the residual's lie, so that none
/// is written before all guesses are known to be right.
template <Residual residual, bool adds, bool starts>
SMELT_WIDE_INLINE __m512i guess(const Wide& w, const Row& row, int64_t i, __mmask16 mask, __m512& distance) {
  __m512i whole = _mm512_maskz_loadu_epi32(mask, row.sums + i);
  if constexpr (starts) whole = _mm512_add_epi32(whole, _mm512_maskz_loadu_epi32(mask, row.start + i));
  const __m512 sum = _mm512_cvtepi32_ps(whole);
  const int64_t c = (row.column + i) & w.each;
  const auto number = [&](const float* of) SMELT_WIDE { return _mm512_maskz_loadu_ps(mask, of + c); };
  __m512 v;
  if constexpr (adds || !rounds(residual)) {
    v = _mm512_mul_ps(sum, number(w.scales));
    if constexpr (adds) v = _mm512_add_ps(v, number(w.addends));
    if constexpr (rounds(residual)) v = _mm512_mul_ps(v, w.inverse);
  } else {
    v = _mm512_mul_ps(sum, number(w.multipliers));
  }
  __m512i q;
  if constexpr (rounds(residual)) {
    q = rounded(v, w.low, w.high, distance);
    if constexpr (residual != Residual::none) v = _mm512_mul_ps(_mm512_cvtepi32_ps(q), w.scale2);
  }
  if constexpr (residual != Residual::none) {
    const __m512i other = widened<is_signed(residual)>(_mm_maskz_loadu_epi8(mask, row.residual + i));
    const __m512 b = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(other, w.residual_zero)), w.residual_scale);
    q = rounded(_mm512_mul_ps(_mm512_add_ps(v, b), w.inverse2), w.low2, w.high2, distance);
  }
  return q;
}

SMELT_WIDE_INLINE void store(const Wide& w, uint8_t* to, __mmask16 mask, __m512i q) {
  _mm512_mask_cvtepi32_storeu_epi8(to, mask, _mm512_add_epi32(q, w.zero));
}

SMELT_WIDE_INLINE bool is_doubtful(__m512 distance) {
  return _mm512_cmp_ps_mask(distance, _mm512_set1_ps(next_to_half), _CMP_NLE_UQ) != 0;
}

struct Loops {
  template <Residual residual, bool adds, bool starts> SMELT_WIDE static void rows(const Requantization& r, const SumRows& s) {
    const Wide w(r);
    Row row{s.sums, s.start, s.residual, s.to, s.column};
    for (int64_t k = 0; k < s.rows; ++k) {
      int64_t i = 0;
      for (; i + 4 * lanes <= s.columns; i += 4 * lanes) {
        constexpr auto all = static_cast<__mmask16>(-1);
        __m512 distance = _mm512_setzero_ps();
        __m512i q[4];
#pragma GCC unroll 4
        for (int64_t j = 0; j < 4; ++j) q[j] = guess<residual, adds, starts>(w, row, i + j * lanes, all, distance);
        if (__builtin_expect(is_doubtful(distance), 0)) {
          exactly(r, row, i, 4 * lanes);
          continue;
        }
#pragma GCC unroll 4
        for (int64_t j = 0; j < 4; ++j) store(w, row.to + i + j * lanes, all, q[j]);
      }
      for (; i < s.columns; i += lanes) {
        const __mmask16 mask = first_lanes(s.columns - i);
        __m512 distance = _mm512_setzero_ps();
        const __m512i q = guess<residual, adds, starts>(w, row, i, mask, distance);
        if (__builtin_expect(is_doubtful(distance), 0))
          exactly(r, row, i, std::min(lanes, s.columns - i));
        else
          store(w, row.to + i, mask, q);
      }
      row.sums += s.sums_step, row.residual += s.residual_step, row.to += s.to_step;
    }
  }

  static void exactly(const Requantization& r, const Row& row, int64_t i, int64_t n) {
    requantize_narrow(r, {row.sums + i, row.start ? row.start + i : nullptr, 1, row.column + i, n,
                          row.residual ? row.residual + i : nullptr, row.to + i, 0, 0, 0});
  }
};

template <bool is_signed> SMELT_WIDE void dequantize(float* to, const uint8_t* from, int64_t n, int32_t zero, float scale) {
  const __m512i z = _mm512_set1_epi32(zero);
  const __m512 s = _mm512_set1_ps(scale);
  for (int64_t i = 0; i < n; i += lanes) {
    const __mmask16 mask = first_lanes(n - i);
    const __m512i v = _mm512_sub_epi32(widened<is_signed>(_mm_maskz_loadu_epi8(mask, from + i)), z);
    _mm512_mask_storeu_ps(to + i, mask, _mm512_mul_ps(_mm512_cvtepi32_ps(v), s));
  }
}

}  // namespace

const WideRows* wide_rows() {
  static constexpr WideRows rows = {requantize_by<Loops>, dequantize<false>, dequantize<true>};
  return simd::widest() == simd::Isa::avx512 ? &rows : nullptr;
}

}  // namespace smelt::avx2
#endif
