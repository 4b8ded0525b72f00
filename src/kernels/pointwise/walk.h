// Where the elements of strided views of one shape lie, as the host and the device have it.
//
//   extents   [E0, …, ER-1], outermost first; the last in chunks of the kernel's vector
//   strides   of each view, elements from one index to the next along each axis; 0 where it repeats
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

template <int Rank, int Views> struct Walk {
  u32 chunks;                                // of all axes
  u32 last;                                  // elements along the innermost axis
  Divider extents[Rank > 1 ? Rank - 1 : 1];  // of axes R-1 … 1, in chunks along R-1
  i64 strides[Views][Rank];

#ifdef __CUDACC__
  /// Offsets of each view where a chunk of `Width` elements begins; returns how many of them lie inside the innermost axis.
  template <int Width> __device__ __forceinline__ u32 locate(u32 chunk, i64 (&at)[Views]) const {
    u32 rest = chunk;
#pragma unroll
    for (int v = 0; v < Views; ++v) at[v] = 0;
    u32 begin = 0;
#pragma unroll
    for (int axis = Rank - 1; axis >= 0; --axis) {
      u32 index = rest;
      if (axis > 0) {
        const Divider& extent = extents[Rank - 1 - axis];
        const u32 quotient = extent.quotient(rest);
        index = rest - quotient * extent.divisor;
        rest = quotient;
      }
      if (axis == Rank - 1) begin = index *= Width;
#pragma unroll
      for (int v = 0; v < Views; ++v) at[v] += static_cast<i64>(index) * strides[v][axis];
    }
    return last - begin;
  }
#endif
};

/// Bytes of a Walk. The host lays it out for a rank and a number of views that it knows at run time only.
SMELT_SHARED constexpr u64 walk_bytes(int rank, int views) {
  const u64 head = 8 + 12 * static_cast<u64>(rank > 1 ? rank - 1 : 1);
  return (head + 7) / 8 * 8 + 8 * static_cast<u64>(rank) * static_cast<u64>(views);
}
static_assert(sizeof(Walk<1, 1>) == walk_bytes(1, 1) && sizeof(Walk<2, 5>) == walk_bytes(2, 5) &&
              sizeof(Walk<3, 2>) == walk_bytes(3, 2) && sizeof(Walk<4, 60>) == walk_bytes(4, 60));

}  // namespace smelt::kernels
