// The extents of a GridSample with Rank axes of space.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

template <int Rank> struct GridGeometry {
  u32 count;                       // of y
  i64 channels, places, plane;     // places: of one image of y; plane: elements of one of x
  i64 extents[Rank], steps[Rank];  // of x, outermost first
};
static_assert(sizeof(GridGeometry<1>) == 48 && sizeof(GridGeometry<2>) == 64 && sizeof(GridGeometry<3>) == 80);

}  // namespace smelt::kernels
