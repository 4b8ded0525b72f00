// The argument of detect/roi_align.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

/// T: the elements' type; void on the host.
template <class T> struct RoiAlignArgs {
  const T* x;           // [batch, channels, height, width]
  const T* rois;        // [regions, 4]
  const i64* items;     // [regions]
  T* y;                 // [regions, channels, out_height, out_width]
  double scale, shift;  // shift: half a pixel, or 0 where regions have at least one
  i32 batch, channels, height, width, out_height, out_width;
  i32 sampling;         // samples along a side of a bin; 0: as many as it has pixels
  i32 group;            // channels of a block
  Divider bins, row;    // out_height · out_width, out_width
  u32 regions;
};
static_assert(sizeof(RoiAlignArgs<void>) == 112);

}  // namespace smelt::kernels
