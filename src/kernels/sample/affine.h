// The argument of sample/affine.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

/// Of Rank axes of space. T: the elements' type; void on the host.
template <class T, int Rank> struct AffineArgs {
  const T* theta;               // [N, Rank, Rank + 1]: a row for each coordinate, innermost axis first, then its offset
  T* y;                         // [N, extents…, Rank]
  Divider extents[Rank];        // outermost axis first
  u32 count;                    // places of all images
  u32 padding;
};

SMELT_SHARED constexpr u64 affine_bytes(int rank) {
  return (24 + static_cast<u64>(rank) * sizeof(Divider) + 7) / 8 * 8;
}
static_assert(sizeof(AffineArgs<void, 2>) == affine_bytes(2) && sizeof(AffineArgs<void, 3>) == affine_bytes(3));

}  // namespace smelt::kernels
