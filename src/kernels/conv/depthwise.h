// The constants and the argument of conv/depthwise.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct DepthwiseConfig {
  int taps_h, taps_w, stride_w, dilation_w;
  int taps_d;                   // along the depth of a volume; 0: an image
  int pixels, vec;              // of a thread
  int threads;                  // of a block
};

/// Where the first of `rows` rows' taps of a channel lies in its word of filters, and the bytes of x in theirs; the others follow.
/// One row's words are x's own, of four channels; two rows make words of two channels.
SMELT_SHARED constexpr int depthwise_byte(int rows, int channel) {
  return rows == 1 ? channel % 4 : rows == 2 ? channel % 2 * 2 : 0;
}

/// X, W: the elements' types; void on the host.
template <class X, class W> struct DepthwiseArgs {
  const X* x;                   // [N, H, W, C]; of a volume [N, D, H, W, C]
  const W* filter;              // [KH, KW, C]; [KD, KH, KW, C]
  u32 chunks;                   // of all outputs, one a thread
  Divider columns, groups, rows;                                            // C / vec; groups of pixels along W; H of the output
  i32 height, width, out_width;
  i32 stride, pad_h, pad_w, dilation;                                       // stride and dilation along H
  i32 zero;                     // of x's integers
  Divider depth;                // of a volume's output; what follows is along D
  i32 in_depth, stride_d, pad_d, dilation_d;
  i64 from[3], plane;           // strides of x along N, H, W; along D
};
static_assert(sizeof(DepthwiseArgs<void, void>) == 152);

}  // namespace smelt::kernels
