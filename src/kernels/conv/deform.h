// The constants and the argument of conv/deform.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct DeformConfig {
  int warps;                    // of a block
  int outputs;                  // of a thread
  int depth;                    // taps of channels that are staged at a time
};

/// T: the elements' type; void on the host.
template <class T> struct DeformArgs {
  const T* x;                   // [N, C, H, W]
  const T* w;                   // [M, C / groups, KH, KW]
  const T* offset;              // [N, offset groups, KH * KW, 2, OH, OW]
  const T* bias;                // [M]; null: 0
  const T* mask;                // [N, offset groups, KH * KW, OH, OW]; null: 1
  T* y;                         // [N, M, OH, OW]
  u32 pixels;                   // N * OH * OW
  Divider plane, row;           // of the pixels: OH * OW, OW
  Divider tiles;                // of a group's outputs
  Divider taps, taps_w;         // KH * KW, KW
  Divider sharing;              // channels that share their offsets: C / offset groups
  i32 channels, group_channels, group_outputs;                              // C; C and M of a group
  i32 height, width;            // H, W
  i32 stride[2], pad[2], dilation[2];                                       // along H, W
  i32 offset_groups;
};
static_assert(sizeof(DeformArgs<void>) == 176);

}  // namespace smelt::kernels
