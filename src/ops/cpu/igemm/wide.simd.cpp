// Two tiles at once with AVX-512: 12 rows and 16 columns in 12 registers, so that a row of B is read once for both. Each sum adds the
// same products in the same order as in one tile: bits do not depend on the processor.
#ifdef __AVX2__
#include <immintrin.h>

#include <cstdint>

#include "ops/cpu/igemm/simd/sums.h"

#define SMELT_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define SMELT_WIDE_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

namespace smelt::avx2 {
namespace {

using ops::igemm::Activation;
using ops::igemm::Tile;
using ops::igemm::tile_rows;
using ops::igemm::WideTable;

/// Both tiles' rows of a part.
template <int rows>
inline __attribute__((always_inline)) void rows_of(const float* const* a, const float* const* b, const float** row) {
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r) row[r] = r < tile_rows ? a[r] : b[r - tile_rows];
}

/// Row r of the two tiles: where sums come from or go to.
inline __attribute__((always_inline)) float* sums_at(const Tile& a, const Tile& b, int r) {
  return r < tile_rows ? a.sums + r * a.sums_stride : b.sums + (r - tile_rows) * b.sums_stride;
}

// As activate.h has it for 8 numbers.
SMELT_WIDE inline __m512 ended(__m512 x, const ops::igemm::Ending& end) {
  if (end.activation == Activation::clamp) {
    x = _mm512_min_ps(_mm512_set1_ps(end.high), _mm512_max_ps(_mm512_set1_ps(end.low), x));
  } else if (end.activation == Activation::hard_swish) {
    const __m512 gate = _mm512_fmadd_ps(x, _mm512_set1_ps(1.0f / 6), _mm512_set1_ps(0.5f));
    x = _mm512_mul_ps(x, _mm512_min_ps(_mm512_max_ps(gate, _mm512_setzero_ps()), _mm512_set1_ps(1.0f)));
  }
  if (!end.is_scaled) return x;
  x = _mm512_mul_ps(x, _mm512_set1_ps(end.scale));
  asm("" : "+v"(x));  // no multiply-add: the product is rounded, as in the program
  return _mm512_add_ps(x, _mm512_set1_ps(end.shift));
}

template <int rows> SMELT_WIDE void run(const Tile& t, const Tile& u) {
  __m512 sums[rows];
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r)
    sums[r] = t.resume ? _mm512_loadu_ps(sums_at(t, u, r)) : t.bias ? _mm512_loadu_ps(t.bias) : _mm512_setzero_ps();
  const float* b = t.b;
  for (int part = 0; part < t.parts; ++part) {
    const float* row[rows];
    rows_of<rows>(t.rows + part * tile_rows, u.rows + part * tile_rows, row);
    const int64_t length = t.lengths[part];
    if (!adds_nothing<rows>(row, t.zeros)) {
#pragma GCC unroll 4
      for (int64_t k = 0; k < length; ++k) {
        const __m512 column = _mm512_loadu_ps(b + 16 * k);
#pragma GCC unroll 12
        for (int r = 0; r < rows; ++r) sums[r] = _mm512_fmadd_ps(_mm512_set1_ps(row[r][k]), column, sums[r]);
      }
    }
    b += 16 * length;
  }
  const auto mask = static_cast<__mmask16>(0xffffu >> (16 - t.columns));
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r) {
    if (!t.c) {
      _mm512_storeu_ps(sums_at(t, u, r), sums[r]);
      continue;
    }
    const Tile& own = r < tile_rows ? t : u;
    const int at = r < tile_rows ? r : r - tile_rows;
    __m512 x = sums[r];
    if (t.residual) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, own.residual[at]));
    _mm512_mask_storeu_ps(own.c[at], mask, ended(x, t.end));
  }
}

/// sum + the two products of a pair.
SMELT_WIDE inline __m512i added(__m512i sum, __m512i a, __m512i b) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)); }
SMELT_WIDE_DOT inline __m512i dotted(__m512i sum, __m512i a, __m512i b) { return _mm512_dpwssd_epi32(sum, a, b); }

#define SMELT_PAIRS(name, target, add)                                                                                \
  template <int rows> target void name(const Tile& t, const Tile& u) {                                                \
    __m512i sums[rows];                                                                                               \
    _Pragma("GCC unroll 12") for (int r = 0; r < rows; ++r) sums[r] = t.resume ? _mm512_loadu_si512(sums_at(t, u, r)) \
                                                                      : t.bias ? _mm512_loadu_si512(t.bias)           \
                                                                               : _mm512_setzero_si512();              \
    const float* b = t.b;                                                                                             \
    for (int part = 0; part < t.parts; ++part) {                                                                      \
      const float* row[rows];                                                                                         \
      rows_of<rows>(t.rows + part * tile_rows, u.rows + part * tile_rows, row);                                       \
      const int64_t length = t.lengths[part];                                                                         \
      _Pragma("GCC unroll 2") for (int64_t k = 0; k < length; ++k) {                                                  \
        const __m512i column = _mm512_loadu_si512(b + 16 * k);                                                        \
        _Pragma("GCC unroll 12") for (int r = 0; r < rows; ++r) {                                                     \
          int32_t pair;                                                                                               \
          __builtin_memcpy(&pair, row[r] + k, sizeof pair);                                                           \
          sums[r] = add(sums[r], _mm512_set1_epi32(pair), column);                                                    \
        }                                                                                                             \
      }                                                                                                               \
      b += 16 * length;                                                                                               \
    }                                                                                                                 \
    _Pragma("GCC unroll 12") for (int r = 0; r < rows; ++r) _mm512_storeu_si512(sums_at(t, u, r), sums[r]);           \
  }
SMELT_PAIRS(run_pairs, SMELT_WIDE, added)
SMELT_PAIRS(run_dots, SMELT_WIDE_DOT, dotted)
#undef SMELT_PAIRS

bool has_wide() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}

}  // namespace

const WideTable* wide_tile_table() {
  static constexpr WideTable table = {{run<7>, run<8>, run<9>, run<10>, run<11>, run<12>}};
  static const bool is_there = has_wide();
  return is_there ? &table : nullptr;
}

const WideTable* wide_pair_table() {
  static constexpr WideTable pairs = {{run_pairs<7>, run_pairs<8>, run_pairs<9>, run_pairs<10>, run_pairs<11>, run_pairs<12>}},
                             dots = {{run_dots<7>, run_dots<8>, run_dots<9>, run_dots<10>, run_dots<11>, run_dots<12>}};
  static const WideTable* const best = !has_wide() ? nullptr : __builtin_cpu_supports("avx512vnni") ? &dots : &pairs;
  return best;
}

}  // namespace smelt::avx2
#endif
