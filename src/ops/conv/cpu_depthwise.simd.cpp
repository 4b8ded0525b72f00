#ifdef __AVX2__
#include <immintrin.h>

#include <algorithm>

#include "ops/conv/simd/depthwise.h"
#include "ops/cpu/igemm/simd/activate.h"
#include "ops/cpu/igemm/simd/sums.h"

namespace smelt::avx2 {
namespace {

using ops::conv::depthwise_lanes;
using ops::conv::DepthwiseSpan;
using ops::conv::DepthwiseTable;

/// All eight channels from `c` on, or (not `whole`) as many as are left.
template <bool whole> struct Lanes {
  int64_t c;
  __m256i mask;

  explicit Lanes(const DepthwiseSpan& s, int64_t first)
      : c(first), mask(whole ? __m256i{} : lanes_below(static_cast<int>(s.channels - first))) {}
  __m256 load(const float* from) const { return whole ? _mm256_loadu_ps(from + c) : _mm256_maskload_ps(from + c, mask); }
  void store(float* to, __m256 v) const {
    if (whole)
      _mm256_storeu_ps(to + c, v);
    else
      _mm256_maskstore_ps(to + c, mask, v);
  }
};

template <int pixels, bool whole> inline __attribute__((always_inline)) void finish(const DepthwiseSpan& s,
                                                                                    const Lanes<whole>& lanes, int64_t first,
                                                                                    const __m256* sums) {
#pragma GCC unroll 8
  for (int p = 0; p < pixels; ++p) {
    __m256 v = sums[p];
    if (s.residual) v = _mm256_add_ps(v, lanes.load(s.residual + (first + p) * s.residual_step));
    lanes.store(s.y + (first + p) * s.y_step, apply(v, s.end));
  }
}

inline __m256 start(const DepthwiseSpan& s, int64_t c) { return s.bias ? _mm256_loadu_ps(s.bias + c) : _mm256_setzero_ps(); }

/// Windows of any form.
template <int pixels, bool whole> void any_window(const DepthwiseSpan& s, int64_t c, int64_t first) {
  const Lanes<whole> lanes(s, c);
  __m256 sums[pixels];
  std::fill_n(sums, pixels, start(s, lanes.c));
  const float* x = s.x + first * s.pixel_step;
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t tap = 0; tap < s.taps; ++tap) {
      const __m256 w = _mm256_loadu_ps(s.w + row * s.w_row_step + tap * s.w_tap_step + lanes.c);
      const float* at = x + row * s.row_step + tap * s.tap_step;
#pragma GCC unroll 8
      for (int p = 0; p < pixels; ++p) sums[p] = _mm256_fmadd_ps(lanes.load(at + p * s.pixel_step), w, sums[p]);
    }
  }
  finish<pixels>(s, lanes, first, sums);
}

/// Windows of so many taps a row whose pixels are `stride` taps apart: what a row reads is loaded once for all pixels.
template <int taps, int stride, int pixels, bool whole> void known_window(const DepthwiseSpan& s, int64_t c, int64_t first) {
  const Lanes<whole> lanes(s, c);
  __m256 sums[pixels];
  std::fill_n(sums, pixels, start(s, lanes.c));
  const float* x = s.x + first * s.pixel_step;
  for (int64_t row = 0; row < s.rows; ++row) {
    __m256 w[taps];
#pragma GCC unroll 8
    for (int t = 0; t < taps; ++t) w[t] = _mm256_loadu_ps(s.w + row * s.w_row_step + t * s.w_tap_step + lanes.c);
    const float* at = x + row * s.row_step;
#pragma GCC unroll 32
    for (int i = 0; i < (pixels - 1) * stride + taps; ++i) {
      const __m256 v = lanes.load(at + i * s.tap_step);
#pragma GCC unroll 8
      for (int p = 0; p < pixels; ++p)
        if (i - p * stride >= 0 && i - p * stride < taps) sums[p] = _mm256_fmadd_ps(v, w[i - p * stride], sums[p]);
    }
  }
  finish<pixels>(s, lanes, first, sums);
}

/// Of the eight channels from `c` on, pixels from `first` on.
using Window = void (*)(const DepthwiseSpan& s, int64_t c, int64_t first);

/// `count` pixels at a time.
template <int count, bool whole> Window pixels_at_once(const DepthwiseSpan& s) {
  if (s.taps == 3 && s.stride == 1) return known_window<3, 1, count, whole>;
  if (s.taps == 3 && s.stride == 2) return known_window<3, 2, count, whole>;
  if (s.taps == 5 && s.stride == 1) return known_window<5, 1, count, whole>;
  if (s.taps == 5 && s.stride == 2) return known_window<5, 2, count, whole>;
  if (s.taps == 7 && s.stride == 1) return known_window<7, 1, count, whole>;
  return any_window<count, whole>;
}

/// Eight sums at once hide what an addition takes, and leave registers for a row's weights.
constexpr int counts[] = {8, 4, 1};

template <bool whole> struct Windows {
  Window of[3];
  explicit Windows(const DepthwiseSpan& s)
      : of{pixels_at_once<counts[0], whole>(s), pixels_at_once<counts[1], whole>(s), any_window<counts[2], whole>} {}
};

void run(const DepthwiseSpan& s) {
  const Windows<true> whole(s);
  const Windows<false> rest(s);
  // Two times eight channels, a line of the cache, pixel by pixel.
  constexpr int64_t block = 2 * depthwise_lanes;
  for (int64_t begin = 0; begin < s.channels; begin += block) {
    const int64_t end = std::min(begin + block, s.channels);
    for (int64_t first = 0; first < s.pixels;) {
      int size = 0;
      while (first + counts[size] > s.pixels) ++size;
      for (int64_t c = begin; c < end; c += depthwise_lanes)
        (c + depthwise_lanes <= s.channels ? whole.of : rest.of)[size](s, c, first);
      first += counts[size];
    }
  }
}

}  // namespace

const DepthwiseTable& depthwise_table() {
  static constexpr DepthwiseTable table = {run};
  return table;
}

}  // namespace smelt::avx2
#endif
