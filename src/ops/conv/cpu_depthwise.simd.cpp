#ifdef __AVX2__
#include <immintrin.h>

#include <algorithm>

#include "ops/conv/simd/depthwise.h"
#include "ops/cpu/igemm/simd/activate.h"
#include "ops/cpu/igemm/simd/sums.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::conv::depthwise_padding;
using ops::conv::DepthwiseSpan;
using ops::conv::DepthwiseTable;

#ifdef __AVX512F__
using Register = __m512;
using Mask = __mmask16;
inline Register load(const float* p) { return _mm512_loadu_ps(p); }
inline Register load(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
inline void store(float* p, Register v) { _mm512_storeu_ps(p, v); }
inline void store(float* p, Mask m, Register v) { _mm512_mask_storeu_ps(p, m, v); }
inline Register add(Register a, Register b) { return _mm512_add_ps(a, b); }
inline Register fma(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
inline Mask lanes_below(int64_t n) { return static_cast<Mask>((1u << n) - 1); }
#else
using Register = __m256;
using Mask = __m256i;
inline Register load(const float* p) { return _mm256_loadu_ps(p); }
inline Register load(const float* p, Mask m) { return _mm256_maskload_ps(p, m); }
inline void store(float* p, Register v) { _mm256_storeu_ps(p, v); }
inline void store(float* p, Mask m, Register v) { _mm256_maskstore_ps(p, m, v); }
inline Register add(Register a, Register b) { return _mm256_add_ps(a, b); }
inline Register fma(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
#endif
/// Channels whose weights are loaded at once.
constexpr int64_t channels_at_once = sizeof(Register) / sizeof(float);

/// All of a register's channels from `c` on, or (not `whole`) as many as are left.
template <bool whole> struct Lanes {
  int64_t c;
  Mask mask;

  Lanes(const DepthwiseSpan& s, int64_t first)
      : c(first), mask(whole ? Mask{} : lanes_below(static_cast<int>(s.channels - first))) {}
  Register load(const float* from) const { return whole ? SMELT_ISA::load(from + c) : SMELT_ISA::load(from + c, mask); }
  void store(float* to, Register v) const {
    if (whole)
      SMELT_ISA::store(to + c, v);
    else
      SMELT_ISA::store(to + c, mask, v);
  }
};

template <int pixels, bool whole> inline __attribute__((always_inline)) void finish(const DepthwiseSpan& s,
                                                                                    const Lanes<whole>& lanes, int64_t first,
                                                                                    const Register* sums) {
#pragma GCC unroll 8
  for (int p = 0; p < pixels; ++p) {
    Register v = sums[p];
    if (s.residual) v = add(v, lanes.load(s.residual + (first + p) * s.residual_step));
    lanes.store(s.y + (first + p) * s.y_step, apply(v, s.end));
  }
}

inline Register start(const DepthwiseSpan& s, int64_t c) { return s.bias ? load(s.bias + c) : Register{}; }

/// Windows of any form.
template <int pixels, bool whole> void any_window(const DepthwiseSpan& s, int64_t c, int64_t first) {
  const Lanes<whole> lanes(s, c);
  Register sums[pixels];
  std::fill_n(sums, pixels, start(s, lanes.c));
  const float* x = s.x + first * s.pixel_step;
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t tap = 0; tap < s.taps; ++tap) {
      const Register w = load(s.w + row * s.w_row_step + tap * s.w_tap_step + lanes.c);
      const float* at = x + row * s.row_step + tap * s.tap_step;
#pragma GCC unroll 8
      for (int p = 0; p < pixels; ++p) sums[p] = fma(lanes.load(at + p * s.pixel_step), w, sums[p]);
    }
  }
  finish<pixels>(s, lanes, first, sums);
}

/// Windows of so many taps a row whose pixels are `stride` taps apart: what a row reads is loaded once for all pixels.
template <int taps, int stride, int pixels, bool whole> void known_window(const DepthwiseSpan& s, int64_t c, int64_t first) {
  const Lanes<whole> lanes(s, c);
  Register sums[pixels];
  std::fill_n(sums, pixels, start(s, lanes.c));
  const float* x = s.x + first * s.pixel_step;
  for (int64_t row = 0; row < s.rows; ++row) {
    Register w[taps];
#pragma GCC unroll 8
    for (int t = 0; t < taps; ++t) w[t] = load(s.w + row * s.w_row_step + t * s.w_tap_step + lanes.c);
    const float* at = x + row * s.row_step;
#pragma GCC unroll 32
    for (int i = 0; i < (pixels - 1) * stride + taps; ++i) {
      const Register v = lanes.load(at + i * s.tap_step);
#pragma GCC unroll 8
      for (int p = 0; p < pixels; ++p)
        if (i - p * stride >= 0 && i - p * stride < taps) sums[p] = fma(v, w[i - p * stride], sums[p]);
    }
  }
  finish<pixels>(s, lanes, first, sums);
}

/// Of the register's channels from `c` on, pixels from `first` on.
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
  // The channels of a line of the cache, pixel by pixel.
  constexpr int64_t block = depthwise_padding;
  for (int64_t begin = 0; begin < s.channels; begin += block) {
    const int64_t end = std::min(begin + block, s.channels);
    for (int64_t first = 0; first < s.pixels;) {
      int size = 0;
      while (first + counts[size] > s.pixels) ++size;
      for (int64_t c = begin; c < end; c += channels_at_once)
        (c + channels_at_once <= s.channels ? whole.of : rest.of)[size](s, c, first);
      first += counts[size];
    }
  }
}

}  // namespace

const DepthwiseTable& depthwise_table() {
  static constexpr DepthwiseTable table = {run};
  return table;
}

}  // namespace smelt::SMELT_ISA
#endif
