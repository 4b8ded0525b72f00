// The constants and the argument of conv/depthwise_rows.cuh beside its tensors.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct DepthwiseRowsConfig {
  int taps_h, taps_w, stride_w, dilation_w;
  int pixels;                   // of a thread, side by side: 1, 2 or 4
  int warps;                    // of a block
};

struct DepthwiseRowsArgs {
  u32 units;                    // warps with something to do
  Divider tiles, rows, outputs;                                             // tiles of a row; H of the output; M
  Divider multiplier;           // filters of a channel: M / C
  i32 height, width, out_width;
  i32 stride, pad_h, pad_w, dilation;                                       // stride and dilation along H
  i32 zero;                     // of x's integers
  i64 from[3];                  // strides of x along N, C, H
};
static_assert(sizeof(DepthwiseRowsArgs) == 112);

}  // namespace smelt::kernels
