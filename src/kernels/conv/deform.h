// The constants and the argument of conv/deform.cuh beside its tensors.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct DeformConfig {
  int warps;                    // of a block
  int outputs;                  // of a thread
  int depth;                    // taps of channels that are staged at a time
};

struct DeformArgs {
  u32 pixels;                   // N * H * W of the output
  Divider plane, row;           // of the pixels: H * W, W
  Divider tiles;                // of a group's outputs
  Divider taps, taps_w;         // KH * KW, KW
  Divider sharing;              // channels that share their offsets: C / offset groups
  i32 channels, group_channels, group_outputs;                              // C; C and M of a group
  i32 height, width;            // of the image
  i32 stride[2], pad[2], dilation[2];                                       // along H, W
  i32 offset_groups;
};
static_assert(sizeof(DeformArgs) == 124);

}  // namespace smelt::kernels
