#ifdef __AVX2__
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "expr/simd/look_up.h"
#include "ops/cpu/integer/simd/bytes.h"
#include "ops/cpu/integer/simd/quantize.h"
#include "ops/cpu/integer/simd/requantize.h"
#include "ops/cpu/integer/simd/rows.h"

namespace smelt::avx2 {
namespace {

using ops::integer::DepthwisePixels;
using ops::integer::Requantization;
using ops::integer::RowFunctions;
using ops::integer::SumRows;

template <bool is_signed> void widen(int16_t* to, const uint8_t* from, int64_t n, int32_t zero) {
  const __m256i z = _mm256_set1_epi16(static_cast<int16_t>(zero));
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store32(to + i, _mm256_sub_epi16(to_16<is_signed>(load16(from + i)), z));
  for (; i < n; ++i) to[i] = static_cast<int16_t>((is_signed ? static_cast<int8_t>(from[i]) : from[i]) - zero);
}

/// 8 sums and what they start from (null: 0).
inline __attribute__((always_inline)) __m256 load_sums(const int32_t* sums, const int32_t* start) {
  __m256i v = load32(sums);
  if (start) v = _mm256_add_epi32(v, load32(start));
  return _mm256_cvtepi32_ps(v);
}

/// 8 scaled sums with what a column adds.
inline __attribute__((always_inline)) __m256 scaled(const Requantization& r, __m256 sums, int64_t column) {
  if (r.same_for_all) column = 0;
  const __m256 v = _mm256_mul_ps(sums, _mm256_loadu_ps(r.scales + column));
  return r.addends ? _mm256_add_ps(v, _mm256_loadu_ps(r.addends + column)) : v;
}

/// Them as whole numbers within the type's range, the zero point not added yet.
inline __attribute__((always_inline)) __m256i whole(const Requantization& r, __m256 v) {
  v = _mm256_div_ps(v, _mm256_set1_ps(r.divisor));
  // The bounds are whole, so that rounding after them is the same.
  v = _mm256_min_ps(_mm256_max_ps(v, _mm256_set1_ps(r.low)), _mm256_set1_ps(r.high));
  return _mm256_cvtps_epi32(v);
}

template <bool is_signed>
inline __attribute__((always_inline)) __m256i add_residual(const Requantization& r, __m256 a, __m128i residual) {
  const __m256i other = _mm256_sub_epi32(to_32<is_signed>(residual), _mm256_set1_epi32(r.residual_zero));
  const __m256 b = _mm256_mul_ps(_mm256_cvtepi32_ps(other), _mm256_set1_ps(r.residual_scale));
  __m256 v = _mm256_div_ps(_mm256_add_ps(a, b), _mm256_set1_ps(r.divisor2));
  v = _mm256_min_ps(_mm256_max_ps(v, _mm256_set1_ps(r.low2)), _mm256_set1_ps(r.high2));
  return _mm256_cvtps_epi32(v);
}

/// A requantization's numbers in registers: bytes that are stored may alias anything in memory.
struct Guess {
  const float *scales, *addends, *multipliers;
  int64_t each;  // every bit where columns have numbers of their own, none where all have the same
  __m256 inverse, low, high, scale2, residual_scale, inverse2, low2, high2;
  __m256i residual_zero;
  explicit Guess(const Requantization& r)
      : scales(r.scales),
        addends(r.addends),
        multipliers(r.multipliers),
        each(r.same_for_all ? 0 : -1),
        inverse(_mm256_set1_ps(r.inverse)),
        low(_mm256_set1_ps(r.low)),
        high(_mm256_set1_ps(r.high)),
        scale2(_mm256_set1_ps(r.scale2)),
        residual_scale(_mm256_set1_ps(r.residual_scale)),
        inverse2(_mm256_set1_ps(r.inverse2)),
        low2(_mm256_set1_ps(r.low2)),
        high2(_mm256_set1_ps(r.high2)),
        residual_zero(_mm256_set1_epi32(r.residual_zero)) {}
};

inline __attribute__((always_inline)) __m256i rounded(__m256 guess, __m256 low, __m256 high, __m256& doubtful) {
  guess = _mm256_min_ps(_mm256_max_ps(guess, low), high);
  const __m256i q = _mm256_cvtps_epi32(guess);
  const __m256 distance = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_sub_ps(guess, _mm256_cvtepi32_ps(q)));
  doubtful = _mm256_max_ps(doubtful, distance);
  return q;
}

inline __attribute__((always_inline)) bool any_doubt(__m256 distance) {
  return _mm256_movemask_ps(_mm256_cmp_ps(distance, _mm256_set1_ps(next_to_half), _CMP_GT_OQ)) != 0;
}

/// 8 columns by their guesses; `doubtful`: their largest distance from a whole number.
template <Residual residual, bool adds>
inline __attribute__((always_inline)) __m256i guessed(const Guess& g, __m256 sum, int64_t column, const uint8_t* other,
                                                      __m256& doubtful) {
  __m256 a;
  column &= g.each;
  if constexpr (rounds(residual)) {
    __m256 v;
    if constexpr (adds) {
      v = _mm256_add_ps(_mm256_mul_ps(sum, _mm256_loadu_ps(g.scales + column)), _mm256_loadu_ps(g.addends + column));
      v = _mm256_mul_ps(v, g.inverse);
    } else {
      v = _mm256_mul_ps(sum, _mm256_loadu_ps(g.multipliers + column));
    }
    const __m256i q = rounded(v, g.low, g.high, doubtful);
    if constexpr (residual == Residual::none) return q;
    a = _mm256_mul_ps(_mm256_cvtepi32_ps(q), g.scale2);
  } else {
    a = _mm256_mul_ps(sum, _mm256_loadu_ps(g.scales + column));
    if constexpr (adds) a = _mm256_add_ps(a, _mm256_loadu_ps(g.addends + column));
  }
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(other));
  const __m256i shifted = _mm256_sub_epi32(to_32<is_signed(residual)>(bytes), g.residual_zero);
  const __m256 b = _mm256_mul_ps(_mm256_cvtepi32_ps(shifted), g.residual_scale);
  return rounded(_mm256_mul_ps(_mm256_add_ps(a, b), g.inverse2), g.low2, g.high2, doubtful);
}

/// 8 columns as the program computes them.
template <Residual residual> inline __m256i exact(const Requantization& r, __m256 sums, int64_t column, const uint8_t* other) {
  __m256 v = scaled(r, sums, column);
  if constexpr (rounds(residual)) {
    const __m256i q = whole(r, v);
    if constexpr (residual == Residual::none) return q;
    v = _mm256_mul_ps(_mm256_cvtepi32_ps(q), _mm256_set1_ps(r.scale2));
  }
  return add_residual<is_signed(residual)>(r, v, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(other)));
}

template <Residual residual, bool adds, bool starts>
inline __attribute__((always_inline)) void requantize_row(const Requantization& r, const Guess& g, const int32_t* sums,
                                                          const int32_t* start, int64_t column, int64_t n, const uint8_t* other,
                                                          uint8_t* to) {
  const auto load = [=](int64_t i) __attribute__((always_inline)) { return load_sums(sums + i, starts ? start + i : nullptr); };
  const __m256i zero = _mm256_set1_epi16(static_cast<int16_t>(r.zero));
  int64_t i = 0;
  const auto columns = [&]<int vectors>() __attribute__((always_inline)) {
    __m256i q[vectors];
    __m256 doubtful = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      q[j] = guessed<residual, adds>(g, load(i + 8 * j), column + i + 8 * j, other + i + 8 * j, doubtful);
    if (__builtin_expect(any_doubt(doubtful), 0)) {
      for (int j = 0; j < vectors; ++j) q[j] = exact<residual>(r, load(i + 8 * j), column + i + 8 * j, other + i + 8 * j);
    }
    store_bytes<vectors>(to + i, q, zero);
  };
  for (; i + 32 <= n; i += 32) columns.template operator()<4>();
  if (i + 16 <= n) {
    columns.template operator()<2>();
    i += 16;
  }
  const auto eight = [&](int64_t at, __m256 sum, const uint8_t* from) __attribute__((always_inline)) {
    __m256 doubtful = _mm256_setzero_ps();
    __m256i q = guessed<residual, adds>(g, sum, column + at, from, doubtful);
    if (__builtin_expect(any_doubt(doubtful), 0)) q = exact<residual>(r, sum, column + at, from);
    return to_bytes(q, r.zero);
  };
  if (i + 8 <= n) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + i), eight(i, load(i), other + i));
    i += 8;
  }
  if (i < n) {
    // Sums, scales and addends are as long as panels are wide; what is read and written of the others ends with the row.
    alignas(16) uint8_t from[16] = {}, last[16];
    alignas(32) int32_t first[8] = {};
    if constexpr (residual != Residual::none) std::memcpy(from, other + i, static_cast<size_t>(n - i));
    if constexpr (starts) std::memcpy(first, start + i, static_cast<size_t>(n - i) * sizeof(int32_t));
    store16(last, eight(i, load_sums(sums + i, starts ? first : nullptr), from));
    std::memcpy(to + i, last, static_cast<size_t>(n - i));
  }
}

struct NarrowRows {
  /// The guess's numbers stay in registers from row to row: rows of depthwise windows and of narrow layers are short.
  template <Residual residual, bool adds, bool starts> static void rows(const Requantization& r, const SumRows& s) {
    const Guess g(r);
    const int32_t* sums = s.sums;
    const uint8_t* other = s.residual;
    uint8_t* to = s.to;
    for (int64_t row = 0; row < s.rows; ++row, sums += s.sums_step, other += s.residual_step, to += s.to_step)
      requantize_row<residual, adds, starts>(r, g, sums, s.start, s.column, s.columns, other, to);
  }
};

void requantize(const Requantization& r, const SumRows& s) {
  static const WideRows* const wide = wide_rows();
  (wide ? wide->requantize : requantize_narrow)(r, s);
  if (!r.table) return;
  const auto through = best_look_up();
  for (int64_t row = 0; row < s.rows; ++row) through(s.to + row * s.to_step, s.to + row * s.to_step, s.columns, r.table);
}

/// The taps' bytes interleaved by pairs of taps, so that vpmaddwd multiplies and adds two taps. unpacklo and unpackhi work within
/// halves: `low` holds channels 0-3 and 8-11, `high` 4-7 and 12-15.
template <bool is_signed, int blocks>
inline __attribute__((always_inline)) void depthwise_blocks(const DepthwisePixels& p, int64_t c, const int16_t* weights) {
  __m256i start[blocks][2];
  for (int b = 0; b < blocks; ++b) {
    const __m256i s0 = load32(p.start + c + 16 * b), s1 = load32(p.start + c + 16 * b + 8);
    start[b][0] = _mm256_permute2x128_si256(s0, s1, 0x20);
    start[b][1] = _mm256_permute2x128_si256(s0, s1, 0x31);
  }
  int32_t* sums = p.sums + c;
  int64_t at = c;
  for (int64_t pixel = 0; pixel < p.pixels; ++pixel, at += p.step, sums += p.sums_step) {
    __m256i low[blocks], high[blocks];
    for (int b = 0; b < blocks; ++b) low[b] = start[b][0], high[b] = start[b][1];
    const int16_t* w = weights;
    for (int64_t t = 0; t < p.pairs; ++t, w += 32) {
      const uint8_t *first = p.taps[2 * t] + at, *second = p.taps[2 * t + 1] + at;
      for (int b = 0; b < blocks; ++b) {
        const __m256i x = to_16<is_signed>(load16(first + 16 * b)), y = to_16<is_signed>(load16(second + 16 * b));
        const int16_t* of_block = w + b * 32 * p.pairs;
        low[b] = _mm256_add_epi32(low[b], _mm256_madd_epi16(_mm256_unpacklo_epi16(x, y), load32(of_block)));
        high[b] = _mm256_add_epi32(high[b], _mm256_madd_epi16(_mm256_unpackhi_epi16(x, y), load32(of_block + 16)));
      }
    }
    for (int b = 0; b < blocks; ++b) {
      store32(sums + 16 * b, _mm256_permute2x128_si256(low[b], high[b], 0x20));
      store32(sums + 16 * b + 8, _mm256_permute2x128_si256(low[b], high[b], 0x31));
    }
  }
}

template <bool is_signed> void depthwise_pixels(const DepthwisePixels& p, int64_t c) {
  const int64_t step = p.pairs * 32;
  const int16_t* w = p.weights + c / 16 * step;
  for (; c + 32 <= p.channels; c += 32, w += 2 * step) depthwise_blocks<is_signed, 2>(p, c, w);
  if (c + 16 <= p.channels) {
    depthwise_blocks<is_signed, 1>(p, c, w);
    c += 16;
    w += step;
  }
  if (c < p.channels) depthwise_blocks<is_signed, 1>(p, p.channels - 16, w);
}

void depthwise(const DepthwisePixels& p) { depthwise_from(p, 0); }

template <bool is_signed> void dequantize(float* to, const uint8_t* from, int64_t n, int32_t zero, float scale) {
  const __m256i z = _mm256_set1_epi32(zero);
  const __m256 s = _mm256_set1_ps(scale);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i v = _mm256_sub_epi32(to_32<is_signed>(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i))), z);
    _mm256_storeu_ps(to + i, _mm256_mul_ps(_mm256_cvtepi32_ps(v), s));
  }
  for (; i < n; ++i) to[i] = static_cast<float>((is_signed ? static_cast<int8_t>(from[i]) : from[i]) - zero) * scale;
}

void to_floats(float* sums, int64_t rows, int64_t columns, int64_t step, const int32_t* start, const float* scales) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = sums + r * step;  // ahead of where they go, or the same
    float* to = sums + r * columns;
    int64_t c = 0;
    for (; c + 8 <= columns; c += 8) {
      const int32_t* at = start ? start + c : nullptr;
      _mm256_storeu_ps(to + c,
                       _mm256_mul_ps(load_sums(reinterpret_cast<const int32_t*>(from + c), at), _mm256_loadu_ps(scales + c)));
    }
    for (; c < columns; ++c) {
      int32_t sum;
      std::memcpy(&sum, from + c, sizeof sum);
      to[c] = static_cast<float>(start ? sum + start[c] : sum) * scales[c];
    }
  }
}

template <bool is_signed> inline __m128i max_of_16(__m128i a, __m128i b) {
  return is_signed ? _mm_max_epi8(a, b) : _mm_max_epu8(a, b);
}

/// A maximum may be taken twice, so the last vector may begin within the one before.
template <bool is_signed> void max_of(uint8_t* to, const uint8_t* from, int64_t n) {
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i a = load32(to + i), b = load32(from + i);
    store32(to + i, is_signed ? _mm256_max_epi8(a, b) : _mm256_max_epu8(a, b));
  }
  if (n >= 16) {
    for (; i < n; i += 16) {
      const int64_t at = i + 16 <= n ? i : n - 16;
      store16(to + at, max_of_16<is_signed>(load16(to + at), load16(from + at)));
    }
    return;
  }
  if (n >= 8) {
    for (; i < n; i += 8) {
      const int64_t at = i + 8 <= n ? i : n - 8;
      const __m128i a = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(to + at)),
                    b = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + at));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to + at), max_of_16<is_signed>(a, b));
    }
    return;
  }
  for (; i < n; ++i) {
    const bool greater = is_signed ? static_cast<int8_t>(from[i]) > static_cast<int8_t>(to[i]) : from[i] > to[i];
    if (greater) to[i] = from[i];
  }
}

template <bool is_signed> void add_to(int32_t* to, const uint8_t* from, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i));
    store32(to + i, _mm256_add_epi32(load32(to + i), to_32<is_signed>(bytes)));
  }
  for (; i < n; ++i) to[i] += is_signed ? static_cast<int8_t>(from[i]) : from[i];
}

void add_sums(int32_t* to, const int32_t* from, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) store32(to + i, _mm256_add_epi32(load32(to + i), load32(from + i)));
  for (; i < n; ++i) to[i] += from[i];
}

}  // namespace

void requantize_narrow(const Requantization& r, const SumRows& s) { requantize_by<NarrowRows>(r, s); }

void depthwise_from(const DepthwisePixels& p, int64_t first) {
  if (p.is_signed)
    depthwise_pixels<true>(p, first);
  else
    depthwise_pixels<false>(p, first);
}

const RowFunctions& integer_rows() {
  static const auto wide = wide_depthwise();
  static const WideRows* const rows = wide_rows();
  static const RowFunctions table = {widen<false>,
                                     widen<true>,
                                     requantize,
                                     wide ? wide : depthwise,
                                     to_floats,
                                     widest_quantize(),
                                     quantize_within,
                                     rows ? rows->dequantize_u8 : dequantize<false>,
                                     rows ? rows->dequantize_i8 : dequantize<true>,
                                     best_look_up(),
                                     max_of<false>,
                                     max_of<true>,
                                     add_to<false>,
                                     add_to<true>,
                                     add_sums};
  return table;
}

}  // namespace smelt::avx2
#endif
