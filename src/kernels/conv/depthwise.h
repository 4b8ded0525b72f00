// The constants and the argument of conv/depthwise.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct DepthwiseConfig {
  int taps_h, taps_w, stride_w, dilation_w;
  int pixels, vec;              // of a thread
  int threads;                  // of a block
};

/// X, W: the elements' types; void on the host.
template <class X, class W> struct DepthwiseArgs {
  const X* x;                   // [N, H, W, C]
  const W* filter;              // [KH, KW, C]
  u32 chunks;                   // of all outputs, one a thread
  Divider columns, groups, rows;                                            // C / vec; groups of pixels along W; H of the output
  i32 height, width, out_width;
  i32 stride, pad_h, pad_w, dilation;                                       // stride and dilation along H
  i32 zero;                     // of x's integers
  i64 from[3];                  // strides of x along N, H, W
};
static_assert(sizeof(DepthwiseArgs<void, void>) == 112);

}  // namespace smelt::kernels
