// The inner loops of a depthwise convolution, for *.simd.cpp sources and the driver (ops/conv/cpu_depthwise.cpp).
#pragma once

#include <cstdint>

#include "ops/cpu/igemm/simd/tile.h"

namespace smelt::ops::conv {

/// A tap's weights are padded to a multiple of so many channels: those of a line of the cache, whatever the registers hold.
inline constexpr int64_t depthwise_padding = 16;

/// Output pixels of a line whose windows lie alike: the same rows and taps of the window are inside the image. Steps in elements.
struct DepthwiseSpan {
  const float* x;              // what the first pixel's first tap inside the image reads, channel 0
  int64_t row_step, tap_step;  // from a row of the window, from a tap, to the next
  int64_t stride;              // taps from an output pixel to the next; only where pixel_step is stride · tap_step
  int64_t pixel_step;          // of the image, from an output pixel to the next
  int64_t rows, taps;          // of the window, inside the image; may be 0
  const float* w;              // the first such tap's weights
  int64_t w_row_step, w_tap_step;
  const float* bias;  // null: none; as long as w_tap_step
  int64_t pixels, channels;
  float* y;
  int64_t y_step;
  const float* residual;  // added before `end`; null: none
  int64_t residual_step;
  igemm::Ending end;
};

struct DepthwiseTable {
  void (*run)(const DepthwiseSpan& s);
};

}  // namespace smelt::ops::conv

namespace smelt::avx2 {
const ops::conv::DepthwiseTable& depthwise_table();
}
namespace smelt::avx512 {
const ops::conv::DepthwiseTable& depthwise_table();
}
