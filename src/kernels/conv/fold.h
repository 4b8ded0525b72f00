// The argument of conv/fold.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

/// Of Rank axes of space. T: the elements' type; void on the host.
template <class T, int Rank> struct FoldArgs {
  const T* x;                   // [planes, taps, places]: the columns of a plane's blocks
  T* y;                         // [planes, extents…]
  Divider extents[Rank], strides[Rank];                                     // outermost axis first
  i32 taps[Rank], pad[Rank], dilation[Rank], places[Rank];
  u32 count;                    // elements of y
  u32 padding;
};
static_assert(sizeof(FoldArgs<void, 1>) == 64 && sizeof(FoldArgs<void, 2>) == 104 && sizeof(FoldArgs<void, 3>) == 144);

}  // namespace smelt::kernels
