#ifdef __AVX2__
#include <immintrin.h>

#include <cstdint>

#include "ops/cpu/igemm/simd/activate.h"
#include "ops/cpu/igemm/simd/sums.h"

namespace smelt::avx2 {
namespace {

using ops::igemm::prefetched_ahead;
using ops::igemm::Tile;
using ops::igemm::tile_rows;
using ops::igemm::TileTable;

template <int rows, int vectors>
inline __attribute__((always_inline)) void finish(const Sums<F32Lanes, rows, vectors>& s, const Tile& t) {
  if (!t.c) return s.leave(t);
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) {
      const int left = t.columns - 8 * j;
      __m256 x = s.v[r][j];
      if (left >= 8) {
        if (t.residual) x = _mm256_add_ps(x, _mm256_loadu_ps(t.residual[r] + 8 * j));
        _mm256_storeu_ps(t.c[r] + 8 * j, apply(x, t.end));
      } else {
        const __m256i mask = lanes_below(left);
        if (t.residual) x = _mm256_add_ps(x, _mm256_maskload_ps(t.residual[r] + 8 * j, mask));
        _mm256_maskstore_ps(t.c[r] + 8 * j, mask, apply(x, t.end));
      }
    }
  }
}

template <int rows, int vectors> void run(const Tile& t) {
  Sums<F32Lanes, rows, vectors> s;
  s.start(t);
  const float* b = t.b;
  const float* const* a = t.rows;
  for (int part = 0; part < t.parts; ++part, a += tile_rows) {
    const float* row[rows];
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) row[r] = a[r];
    const int64_t length = t.lengths[part];
    if (adds_nothing<rows>(a, t.zeros)) {
      b += length * 8 * vectors;
      continue;
    }
#pragma GCC unroll 4
    for (int64_t k = 0; k < length; ++k) {
      __m256 column[vectors];
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) column[j] = _mm256_loadu_ps(b + 8 * j);
      __builtin_prefetch(b + prefetched_ahead * 8 * vectors);
      b += 8 * vectors;
#pragma GCC unroll 6
      for (int r = 0; r < rows; ++r) {
        const __m256 x = _mm256_broadcast_ss(row[r] + k);
#pragma GCC unroll 2
        for (int j = 0; j < vectors; ++j) s.v[r][j] = _mm256_fmadd_ps(x, column[j], s.v[r][j]);
      }
    }
  }
  finish(s, t);
}

/// One of the four channels of a quad.
template <int channel, int rows, int vectors>
inline __attribute__((always_inline)) void add_channel(Sums<F32Lanes, rows, vectors>& s, const float* const* row,
                                                       const float* b) {
  __m256 column[vectors];
#pragma GCC unroll 2
  for (int j = 0; j < vectors; ++j) column[j] = _mm256_loadu_ps(b + 8 * (channel * vectors + j));
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) {
      const __m256 x = _mm256_permute_ps(_mm256_loadu_ps(row[r] + 8 * j), channel * 0x55);  // the channel, for its group's lanes
      s.v[r][j] = _mm256_fmadd_ps(x, column[j], s.v[r][j]);
    }
  }
}

template <int rows, int vectors> void run_quads(const Tile& t) {
  Sums<F32Lanes, rows, vectors> s;
  s.start(t);
  const float* b = t.b;
  const float* const* a = t.rows;
  for (int part = 0; part < t.parts; ++part, a += tile_rows, b += 4 * 8 * vectors) {
    if (adds_nothing<rows>(a, t.zeros)) continue;
    add_channel<0>(s, a, b);
    add_channel<1>(s, a, b);
    add_channel<2>(s, a, b);
    add_channel<3>(s, a, b);
  }
  finish(s, t);
}

}  // namespace

const TileTable& quad_table() {
  static constexpr TileTable table = {{{run_quads<1, 1>, run_quads<1, 2>},
                                       {run_quads<2, 1>, run_quads<2, 2>},
                                       {run_quads<3, 1>, run_quads<3, 2>},
                                       {run_quads<4, 1>, run_quads<4, 2>},
                                       {run_quads<5, 1>, run_quads<5, 2>},
                                       {run_quads<6, 1>, run_quads<6, 2>}}};
  return table;
}

const TileTable& tile_table() {
  static constexpr TileTable table = {{{run<1, 1>, run<1, 2>},
                                       {run<2, 1>, run<2, 2>},
                                       {run<3, 1>, run<3, 2>},
                                       {run<4, 1>, run<4, 2>},
                                       {run<5, 1>, run<5, 2>},
                                       {run<6, 1>, run<6, 2>}}};
  return table;
}

}  // namespace smelt::avx2
#endif
