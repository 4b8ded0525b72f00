// The arguments of select/compact.cuh, and the functors that it takes.
//
//   Flag      bool operator()(u32 place), for places 0 … extent - 1
//   Put       void operator()(u32 place, u32 rank, u32 total), once for each flagged place
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct Places {
  i64* count;                   // [1]: how many are flagged
  u32* counts;                  // [tiles + 1]: of each tile, then 0; null where one block does all
  u32 extent, tiles;
};
static_assert(sizeof(Places) == 24);

template <class Flag, class Put> struct SelectArgs {
  Places places;
  Flag flag;                    // its size is a multiple of 8
  Put put;
};

/// Flags elements that have any bit of the mask. For floating-point types that is all but the sign: both zeros are zero, and NaN
/// is not.
template <class Word, Word Mask> struct HasBits {
  const Word* x;                // [extent]
#ifdef __CUDACC__
  __device__ __forceinline__ bool operator()(u32 i) const { return (x[i] & Mask) != 0; }
#endif
};

/// Puts a place's index along each axis.
template <int Rank> struct PutIndices {
  i64* y;                       // [Rank, total]
  Divider extents[Rank];
#ifdef __CUDACC__
  __device__ __forceinline__ void operator()(u32 place, u32 rank, u32 total) const {
#pragma unroll
    for (int a = Rank - 1; a >= 0; --a) {
      const u32 rest = extents[a].quotient(place);
      y[static_cast<u64>(a) * total + rank] = place - rest * extents[a].divisor;
      place = rest;
    }
  }
#endif
};

/// Puts the elements themselves.
template <class Word> struct PutElement {
  const Word* x;                // [extent]
  Word* y;                      // [total]
#ifdef __CUDACC__
  __device__ __forceinline__ void operator()(u32 place, u32 rank, u32) const { y[rank] = x[place]; }
#endif
};

/// Puts ranks, for copy_flagged.
struct PutRank {
  u32* ranks;                   // [extent]
#ifdef __CUDACC__
  __device__ __forceinline__ void operator()(u32 place, u32 rank, u32) const { ranks[place] = rank; }
#endif
};

/// Unit: the type of what one access moves; void on the host.
template <class Unit> struct CopyFlaggedArgs {
  const Unit* x;                // [outer, extent, row]
  const u8* flag;               // [flags]
  const u32* ranks;             // [flags]
  const i64* count;             // [1]
  Unit* y;                      // [outer, count, row]
  Divider row, extent;
  u32 units, flags;             // units: of x
};
static_assert(sizeof(CopyFlaggedArgs<void>) == 72);

}  // namespace smelt::kernels
