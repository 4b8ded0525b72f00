// The argument of conv/pad.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

/// T: the elements' type; void on the host.
template <class T> struct PadArgs {
  const T* x;                   // [N, C, H, W] of any strides
  T* y;                         // [N, Height, Width, Channels], dense
  i64 from[4];                  // strides of x along N, C, H, W
  u32 pixels;                   // of y
  Divider width, height;        // of y
  i32 in[3], pad[2];            // C, H, W of x; along H, W
  i32 fill;                     // what integers are padded with; floats with 0
};
static_assert(sizeof(PadArgs<void>) == 104);

}  // namespace smelt::kernels
