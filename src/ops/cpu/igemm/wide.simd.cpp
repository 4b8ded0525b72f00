// Tiles with AVX-512: up to 12 rows, those of two tiles, and up to 32 columns, those of two panels, in 24 registers, so that a row of
// B is read once for 12 of A and a row of A once for 32 columns. Each sum adds the same products in the same order as in a tile of
// tile.simd.cpp: bits do not depend on the processor.
#ifdef __AVX512F__
#include <immintrin.h>

#include <cstdint>

#include "expr/simd/isa.h"
#include "ops/cpu/igemm/simd/activate.h"

#define SMELT_TILE_INLINE SMELT_TILE_TARGET inline __attribute__((always_inline))

namespace smelt::avx512 {
namespace {

using ops::igemm::Activation;
using ops::igemm::prefetched_ahead;
using ops::igemm::Tile;
using ops::igemm::tile_columns;
using ops::igemm::tile_rows;
using ops::igemm::WideTable;

namespace floats {
#define SMELT_TILE_TARGET
using Vector = __m512;
SMELT_TILE_INLINE Vector zero() { return _mm512_setzero_ps(); }
SMELT_TILE_INLINE Vector load(const float* p) { return _mm512_loadu_ps(p); }
SMELT_TILE_INLINE void store(float* p, Vector v) { _mm512_storeu_ps(p, v); }
SMELT_TILE_INLINE Vector broadcast(const float* p) { return _mm512_set1_ps(*p); }
SMELT_TILE_INLINE Vector added(Vector sum, Vector a, Vector b) { return _mm512_fmadd_ps(a, b, sum); }
#include "ops/cpu/igemm/simd/wide_body.h"

SMELT_TILE_INLINE Vector clamped(Vector x, Vector low, Vector high) { return _mm512_min_ps(high, _mm512_max_ps(low, x)); }

/// The columns of panel j that are there.
SMELT_TILE_INLINE __mmask16 columns_of(const Tile& t, int j) {
  const int left = t.columns - j * tile_columns;
  return left >= tile_columns ? 0xffff : static_cast<__mmask16>((1u << left) - 1);
}

/// Ends any way, from memory: code for it in each size of tile would be large.
__attribute__((noinline)) void end_rows(const float* sums, int rows, int panels, const Tile& t, const Tile& u) {
  for (int r = 0; r < rows; ++r) {
    float* c = r < tile_rows ? t.c[r] : u.c[r - tile_rows];
    for (int j = 0; j < panels; ++j, sums += tile_columns)
      _mm512_mask_storeu_ps(c + j * tile_columns, columns_of(t, j), apply(load(sums), t.end));
  }
}

template <int rows, int panels> void run(const Tile& t, const Tile& u) {
  Vector sums[rows][panels];
  start(sums, t, u);
  add_parts(sums, t, u);
  if (!t.c) return leave(sums, t, u);
  if (t.residual) {
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
      for (int j = 0; j < panels; ++j) {
        const float* residual = (r < tile_rows ? t.residual[r] : u.residual[r - tile_rows]) + j * tile_columns;
        sums[r][j] = _mm512_add_ps(sums[r][j], _mm512_maskz_loadu_ps(columns_of(t, j), residual));
      }
  }
  if (t.end.activation == Activation::hard_swish || t.end.is_scaled) {
    alignas(64) float kept[rows * panels * tile_columns];
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
      for (int j = 0; j < panels; ++j) store(kept + (r * panels + j) * tile_columns, sums[r][j]);
    return end_rows(kept, rows, panels, t, u);
  }
  const bool clamps = t.end.activation == Activation::clamp;
  const Vector low = _mm512_set1_ps(clamps ? t.end.low : -__builtin_inff());
  const Vector high = _mm512_set1_ps(clamps ? t.end.high : __builtin_inff());
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      float* c = (r < tile_rows ? t.c[r] : u.c[r - tile_rows]) + j * tile_columns;
      _mm512_mask_storeu_ps(c, columns_of(t, j), clamped(sums[r][j], low, high));
    }
}
#undef SMELT_TILE_TARGET
}  // namespace floats

// Sums of pairs of 16-bit integers.
#define SMELT_PAIRS                                                               \
  using Vector = __m512i;                                                         \
  SMELT_TILE_INLINE Vector zero() { return _mm512_setzero_si512(); }              \
  SMELT_TILE_INLINE Vector load(const float* p) { return _mm512_loadu_si512(p); } \
  SMELT_TILE_INLINE void store(float* p, Vector v) { _mm512_storeu_si512(p, v); } \
  SMELT_TILE_INLINE Vector broadcast(const float* p) {                            \
    int32_t pair;                                                                 \
    __builtin_memcpy(&pair, p, sizeof pair);                                      \
    return _mm512_set1_epi32(pair);                                               \
  }
#define SMELT_PAIRS_RUN                                                                      \
  template <int rows, int panels> SMELT_TILE_TARGET void run(const Tile& t, const Tile& u) { \
    Vector sums[rows][panels];                                                               \
    start(sums, t, u);                                                                       \
    add_parts(sums, t, u);                                                                   \
    leave(sums, t, u);                                                                       \
  }

namespace pairs {
#define SMELT_TILE_TARGET
SMELT_PAIRS
SMELT_TILE_INLINE Vector added(Vector sum, Vector a, Vector b) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)); }
#include "ops/cpu/igemm/simd/wide_body.h"
SMELT_PAIRS_RUN
#undef SMELT_TILE_TARGET
}  // namespace pairs

namespace dots {
#define SMELT_TILE_TARGET __attribute__((target("avx512vnni")))
SMELT_PAIRS
SMELT_TILE_INLINE Vector added(Vector sum, Vector a, Vector b) { return _mm512_dpwssd_epi32(sum, a, b); }
#include "ops/cpu/igemm/simd/wide_body.h"
SMELT_PAIRS_RUN
#undef SMELT_TILE_TARGET
}  // namespace dots

#define SMELT_ROWS(kind, n) \
  { kind::run<n, 1>, kind::run<n, 2> }
#define SMELT_TABLE(kind)                                                                                           \
  {                                                                                                                 \
    {                                                                                                               \
      SMELT_ROWS(kind, 1), SMELT_ROWS(kind, 2), SMELT_ROWS(kind, 3), SMELT_ROWS(kind, 4), SMELT_ROWS(kind, 5),      \
          SMELT_ROWS(kind, 6), SMELT_ROWS(kind, 7), SMELT_ROWS(kind, 8), SMELT_ROWS(kind, 9), SMELT_ROWS(kind, 10), \
          SMELT_ROWS(kind, 11), SMELT_ROWS(kind, 12)                                                                \
    }                                                                                                               \
  }

}  // namespace

const WideTable& wide_tile_table() {
  static constexpr WideTable table = SMELT_TABLE(floats);
  return table;
}

const WideTable& wide_pair_table() {
  static constexpr WideTable of_pairs = SMELT_TABLE(pairs), of_dots = SMELT_TABLE(dots);
  return simd::has_dots() ? of_dots : of_pairs;
}

}  // namespace smelt::avx512
#endif
