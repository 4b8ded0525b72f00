// Products of rows with packed panels; for *.simd.cpp sources.
#pragma once

#include "expr/simd/half.h"
#include "ops/rnn/simd/recurrent.h"

namespace smelt::SMELT_ISA {

/// Rows of a tile: their sums fill the registers beside a panel's row. Keeps a value in its register: the compiler would read it
/// from memory anew for each product, and loads are what limits them.
#if defined(__AVX512F__)
template <int gates> inline constexpr int tile_rows_of = gates == 1 ? 14 : gates == 2 ? 12 : gates == 3 ? 8 : 6;
SMELT_INLINE void hold(F32& v) { asm("" : "+v"(v.v)); }
#else
template <int gates> inline constexpr int tile_rows_of = gates == 1 ? 10 : gates == 2 ? 6 : gates == 3 ? 4 : 3;
SMELT_INLINE void hold(F32& v) { asm("" : "+x"(v.v)); }
#endif

/// One row of a panel times one element of each row. What there are fewer of waits in registers, the others come by.
template <int gates, int rows>
SMELT_INLINE void multiply_row(const float* panel, const float* a, int64_t a_stride, F32 (&v)[rows][gates]) {
  if constexpr (rows <= gates) {
    F32 x[rows];
    for (int r = 0; r < rows; ++r) x[r] = splat(a[r * a_stride]);
    for (int g = 0; g < gates; ++g) {
      F32 b = load(panel + g * lanes);
      if constexpr (rows > 1) hold(b);
      for (int r = 0; r < rows; ++r) v[r][g] = fma(x[r], b, v[r][g]);
    }
  } else {
    F32 b[gates];
    for (int g = 0; g < gates; ++g) {
      b[g] = load(panel + g * lanes);
      hold(b[g]);
    }
    for (int r = 0; r < rows; ++r) {
      const F32 x = splat(a[r * a_stride]);
      for (int g = 0; g < gates; ++g) v[r][g] = fma(x, b[g], v[r][g]);
    }
  }
}

/// `rows` rows against one panel's `k` rows. Few rows have several chains of sums, so that additions do not wait for each other.
template <int gates, int rows> SMELT_INLINE void tile(const float* panel, int64_t k, const float* a, int64_t a_stride,
                                                      const float* start, bool resume, float* sums, int64_t sums_stride) {
  constexpr int chains = (8 + gates * rows - 1) / (gates * rows) < 4 ? (8 + gates * rows - 1) / (gates * rows) : 4;
  constexpr int64_t step = gates * lanes;
  F32 v[chains][rows][gates];
  for (int r = 0; r < rows; ++r) {
    for (int g = 0; g < gates; ++g) {
      v[0][r][g] = resume ? load(sums + r * sums_stride + g * lanes) : start ? load(start + g * lanes) : splat(0.0f);
      for (int c = 1; c < chains; ++c) v[c][r][g] = splat(0.0f);
    }
  }
  int64_t i = 0;
  for (; i + chains <= k; i += chains, panel += chains * step) {
    for (int c = 0; c < chains; ++c) multiply_row<gates, rows>(panel + c * step, a + i + c, a_stride, v[c]);
  }
  for (; i < k; ++i, panel += step) multiply_row<gates, rows>(panel, a + i, a_stride, v[0]);
  for (int r = 0; r < rows; ++r) {
    for (int g = 0; g < gates; ++g) {
      for (int c = 1; c < chains; ++c) v[0][r][g] = v[0][r][g] + v[c][r][g];
      store(sums + r * sums_stride + g * lanes, v[0][r][g]);
    }
  }
}

/// Calls f<rows>() for a number of rows known at run time, at most `most`.
template <int most, class F> SMELT_INLINE void with_rows(int64_t rows, F&& f) {
  if constexpr (most > 1) {
    if (rows < most) return with_rows<most - 1>(rows, f);
  }
  f.template operator()<most>();
}

template <int gates> void panel_product(const ops::PanelProduct& p) {
  constexpr int most = tile_rows_of<gates>;
  constexpr int64_t step = gates * lanes;
  constexpr int64_t block = 4096 / step;  // rows of a panel that stay in the L1 cache (16 KB) while many rows go by
  const int64_t depth = p.rows > most && p.k > block + block / 2 ? block : p.k;
  for (int64_t n = 0; n < p.count; ++n) {
    const float* start = p.start ? p.start + n * step : nullptr;
    for (int64_t k = 0; k == 0 || k < p.k; k += depth) {
      const float* panel = p.panels + (n * p.k + k) * step;
      const int64_t now = p.k - k < depth ? p.k - k : depth;
      for (int64_t r = 0; r < p.rows; r += most) {
        with_rows<most>(p.rows - r, [&]<int rows>() {
          tile<gates, rows>(panel, now, p.a + r * p.a_stride + k, p.a_stride, start, k > 0, p.sums + r * p.sums_stride + n * step,
                            p.sums_stride);
        });
      }
      if (depth == 0) break;
    }
  }
}

}  // namespace smelt::SMELT_ISA
