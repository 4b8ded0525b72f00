// The constants and arguments of conv/direct.cuh beside its tensors.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct DirectConfig {
  bool transposed;
  int pixels, vec;              // of a thread
  int threads, lanes;           // of a block; of those, side by side
  bool channels_last;           // lanes along the channels; else along the pixels
};

/// One of the images whose channels lie one behind the other.
struct DirectSegment {
  i32 from[5];                  // strides along N, C, D, H, W
  i32 channels, first;          // of a group; the weights' channel that its first one meets
};
static_assert(sizeof(DirectSegment) == 28);

struct DirectArgs {
  u32 rows;                     // N * D * H * W of the output
  u32 columns;                  // M / vec
  Divider extents[3];           // of the output: W, H, D
  Divider group;                // of the columns: columns to a group
  i32 group_channels, zero;     // zero: of integers
  i32 in[3], stride[3], pad[3], dilation[3], taps[3];                       // in: after upsampling
  i64 w_group, w_m, w_c, w_tap;                                             // strides of w
};
static_assert(sizeof(DirectArgs) == 160);

}  // namespace smelt::kernels
