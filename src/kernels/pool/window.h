// The argument of pool/window.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

/// T: the elements' type; void on the host.
template <class T> struct PoolWindowArgs {
  const T* x;                   // [N, C, D, H, W]
  T* y;                         // [N, C, OD, OH, OW]
  i64* index;                   // [N, C, OD, OH, OW]; null unless it is wanted
  i64 from[5], to[5];           // strides of x and y along N, C, D, H, W
  i64 index_to[5];              // likewise of index
  i64 index_step[3], plane;     // what a step along D, H, W adds to the index; D * H * W
  u32 chunks;                   // of y, one a thread
  Divider extents[4];           // of y, innermost first: channels last C / vec, W, H, D; else W, H, D, C
  i32 in[3], stride[3], pad[3], pad_end[3], dilation[3];                    // along D, H, W
};
static_assert(sizeof(PoolWindowArgs<void>) == 288);

}  // namespace smelt::kernels
