// What pool/window.cuh is given beside its tensors.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct PoolGeometry {
  u32 chunks;                   // threads with something to do
  Divider extents[4];           // of y, innermost first: channels last C / vec, W, H, D; else W, H, D, C
  i32 in[3], stride[3], pad[3], pad_end[3], dilation[3];
  i64 from[5], to[5];           // strides along N, C, D, H, W
  i64 index_step[3], plane;     // what a step along D, H, W adds to the index; elements of an image's plane
  i64 index_to[5];
};
static_assert(sizeof(PoolGeometry) == 264);

}  // namespace smelt::kernels
