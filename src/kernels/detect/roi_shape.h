// The extents of a RoiAlign.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct RoiShape {
  i32 batch, channels, height, width, out_height, out_width;
  i32 sampling;         // samples along a side of a bin; 0: as many as it has pixels
  i32 group;            // channels of a block
  double scale, shift;  // shift: half a pixel, or 0 where regions have at least one
  Divider bins, row;    // out_height · out_width, out_width
};
static_assert(sizeof(RoiShape) == 72);

}  // namespace smelt::kernels
