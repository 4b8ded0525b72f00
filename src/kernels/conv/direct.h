// The constants and the argument of conv/direct.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct DirectConfig {
  bool transposed;
  int pixels, vec;              // of a thread
  int threads, lanes;           // of a block; of those, side by side
  bool channels_last;           // lanes along the channels; else along the pixels
};

/// One of the images that are concatenated along their channels.
template <class X> struct DirectSegment {
  const X* x;                   // [N, Ci, D, H, W]
  i32 from[5];                  // strides along N, C, D, H, W
  i32 channels, first;          // of a group; the weights' channel that its first one meets
};
static_assert(sizeof(DirectSegment<void>) == 40);

/// X, W: the elements' types; void on the host.
template <class X, class W, int Segments> struct DirectArgs {
  const W* w;                   // [M, C, KD, KH, KW]
  i64 w_group, w_m, w_c, w_tap;                                             // strides of w
  u32 rows;                     // N * D * H * W of the output
  u32 columns;                  // M / vec
  Divider extents[3];           // of the output: W, H, D
  Divider group;                // of the columns: columns to a group
  i32 group_channels, zero;     // zero: of integers
  i32 in[3], stride[3], pad[3], dilation[3], taps[3];                       // in: after upsampling
  DirectSegment<X> segments[Segments];
};

/// Bytes of a DirectArgs, for a number of segments that the host knows at run time only: a DirectArgs of more begins likewise.
SMELT_SHARED constexpr u64 direct_bytes(int segments) {
  return 168 + sizeof(DirectSegment<void>) * static_cast<u64>(segments);
}
static_assert(sizeof(DirectArgs<void, void, 1>) == direct_bytes(1) && sizeof(DirectArgs<void, void, 8>) == direct_bytes(8));

}  // namespace smelt::kernels
