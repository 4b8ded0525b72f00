// First layers: windows that lie equally far apart in one line of the image. Their places follow from one pointer and multiples of one
// step, so that nothing is looked up for a row of taps, of which there are few elements.
#ifdef __AVX512F__
#include "ops/conv/simd/padded_line.h"

#include <immintrin.h>

namespace smelt::avx512 {
namespace {

using ops::conv::PaddedLine;

constexpr int panel_columns = 16, most_pixels = 12;

/// Multiples of a step in bytes that no address can be scaled by.
struct Steps {
  int64_t one, three, five, seven, nine, eleven;
};

/// The pixel's window: `at` and r steps.
template <int r> inline __attribute__((always_inline)) const float* window(const char* at, const Steps& s) {
  if constexpr (r == 0) return reinterpret_cast<const float*>(at);
  if constexpr (r == 3 || r == 6) return reinterpret_cast<const float*>(at + s.three * (r / 3));
  if constexpr (r == 5 || r == 10) return reinterpret_cast<const float*>(at + s.five * (r / 5));
  if constexpr (r == 7) return reinterpret_cast<const float*>(at + s.seven);
  if constexpr (r == 9) return reinterpret_cast<const float*>(at + s.nine);
  if constexpr (r == 11) return reinterpret_cast<const float*>(at + s.eleven);
  return reinterpret_cast<const float*>(at + s.one * r);
}

template <int r, int pixels, int panels> inline __attribute__((always_inline)) void add_element(__m512 (&sums)[pixels][panels],
                                                                                                const char* at, const Steps& s,
                                                                                                const __m512 (&column)[panels]) {
  if constexpr (r < pixels) {
    const __m512 a = _mm512_set1_ps(*window<r>(at, s));
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) sums[r][j] = _mm512_fmadd_ps(a, column[j], sums[r][j]);
    add_element<r + 1>(sums, at, s, column);
  }
}

/// `pixels` results of the line from pixel `first` on, in one or two panels from column `from` on.
template <int pixels, int panels> void tile(const PaddedLine& l, int64_t first, int64_t from) {
  const int64_t left = l.columns - from, k = l.rows * l.length;
  const int64_t last_step = left - (panels - 1) * panel_columns <= 8 ? 8 : panel_columns;
  const float* b = l.weights + from * k;
  const float* last = panels == 1 ? b : b + panel_columns * k;
  const int64_t step = l.step * static_cast<int64_t>(sizeof(float));
  const Steps s{step, 3 * step, 5 * step, 7 * step, 9 * step, 11 * step};
  __m512 sums[pixels][panels];
#pragma GCC unroll 12
  for (int r = 0; r < pixels; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j)
      sums[r][j] = l.bias ? _mm512_loadu_ps(l.bias + from + j * panel_columns) : _mm512_setzero_ps();
  const float* taps = l.image + first * l.step;
  for (int64_t y = 0; y < l.rows; ++y, taps += l.row) {
    const char* at = reinterpret_cast<const char*>(taps);
    const char* const end = at + l.length * static_cast<int64_t>(sizeof(float));
    for (; at < end; at += sizeof(float), b += panel_columns, last += last_step) {
      __m512 column[panels];
      column[0] = _mm512_loadu_ps(panels == 1 ? last : b);
      if constexpr (panels == 2) column[1] = _mm512_loadu_ps(last);
      add_element<0>(sums, at, s, column);
    }
  }
  const __m512 low = _mm512_set1_ps(l.low), high = _mm512_set1_ps(l.high);
  float* y = l.y + first * l.y_step + from;
#pragma GCC unroll 12
  for (int r = 0; r < pixels; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      const int64_t there = left - j * panel_columns;
      const __mmask16 mask = there >= panel_columns ? 0xffff : static_cast<__mmask16>((1u << there) - 1);
      _mm512_mask_storeu_ps(y + r * l.y_step + j * panel_columns, mask, _mm512_min_ps(high, _mm512_max_ps(low, sums[r][j])));
    }
}

/// Pixels that end with the line are computed again where it has enough of them.
template <int panels> void columns_of_line(const PaddedLine& l, int64_t from) {
  int64_t at = 0;
  if (l.pixels >= most_pixels) {
    for (; at < l.pixels; at += most_pixels)
      tile<most_pixels, panels>(l, at < l.pixels - most_pixels ? at : l.pixels - most_pixels, from);
    return;
  }
  for (; at + 4 <= l.pixels; at += 4) tile<4, panels>(l, at, from);
  for (; at < l.pixels; ++at) tile<1, panels>(l, at, from);
}

}  // namespace

void convolve_line(const PaddedLine& line) {
  int64_t from = 0;
  for (; line.columns - from > panel_columns; from += 2 * panel_columns) columns_of_line<2>(line, from);
  if (from < line.columns) columns_of_line<1>(line, from);
}

}  // namespace smelt::avx512
#endif
