// The argument of sample/grid.cuh.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// Of Rank axes of space. T, G: the types of x's and the grid's elements; void on the host.
template <class T, class G, int Rank> struct GridArgs {
  const T* x;                      // [N, C, extents…]
  const G* grid;                   // [N, places…, Rank], innermost axis first
  T* y;                            // [N, C, places…]
  i64 channels, places, plane;     // C; elements of a channel of y, of a channel of x
  i64 extents[Rank], steps[Rank];  // of x and its strides, outermost axis first
  u32 groups, count;               // of a thread's channels, of an image and in all, times places
};
static_assert(sizeof(GridArgs<void, void, 1>) == 72 && sizeof(GridArgs<void, void, 2>) == 88 &&
              sizeof(GridArgs<void, void, 3>) == 104);

}  // namespace smelt::kernels
