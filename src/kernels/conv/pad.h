// The argument of conv/pad.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct PadArgs {
  const void* x;                // [N, C, H, W] of any strides
  void* y;                      // [N, Height, Width, Channels], dense
  u32 pixels;                   // of y
  Divider width, height;        // of y
  i32 in[3], pad[2];            // C, H, W of x; along H, W
  i64 from[4];                  // strides of x along N, C, H, W
};
static_assert(sizeof(PadArgs) == 96);

}  // namespace smelt::kernels
