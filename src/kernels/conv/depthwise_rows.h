// The constants and the argument of conv/depthwise_rows.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct DepthwiseRowsConfig {
  int taps_h, taps_w, stride_w, dilation_w;
  int taps_d;                   // along the depth of a volume; 0: an image or a sequence
  int pixels;                   // of a thread, side by side: 1, 2 or 4
  int warps;                    // of a block
};

/// X, W: the elements' types; void on the host.
template <class X, class W> struct DepthwiseRowsArgs {
  const X* x;                   // [N, C, H, W]; of a volume [N, C, D, H, W]
  const W* filter;              // [M, KH, KW]; [M, KD, KH, KW]
  i64 from[3], plane;           // strides of x along N, C, H; along D
  u32 units;                    // tiles of all rows, one a warp
  Divider tiles, rows, outputs;                                             // tiles of a row; H of the output; M
  Divider multiplier;           // filters of a channel: M / C
  i32 height, width, out_width;
  i32 stride, pad_h, pad_w, dilation;                                       // stride and dilation along H
  i32 zero;                     // of x's integers
  Divider depth;                // of a volume's output; what follows is along D
  i32 in_depth, stride_d, pad_d, dilation_d;
};
static_assert(sizeof(DepthwiseRowsArgs<void, void>) == 160);

}  // namespace smelt::kernels
