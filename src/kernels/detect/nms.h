// The arguments of detect/nms.cuh and detect/nms_chunks.cuh.
#pragma once

#include "kernels/sort/sort.h"

namespace smelt::kernels {

/// A box for the cheap test: what it covers, or a little more.
struct alignas(16) Corners {
  float y1, x1, y2, x2;
#ifdef __CUDACC__
  __device__ __forceinline__ bool touches(const Corners& o) const {
    return fminf(y2, o.y2) > fmaxf(y1, o.y1) && fminf(x2, o.x2) > fmaxf(x1, o.x1);
  }
  static __device__ __forceinline__ Corners nothing() {
    const float most = __int_as_float(0x7f800000);
    return {most, most, -most, -most};
  }
#endif
};

struct BoxScores {
  const float* scores;          // [lines, count]
  const float* lowest;          // [1]: what a candidate has at least; null: any number
  u32 count;
  u32 padding;
};
static_assert(sizeof(BoxScores) == 24);

struct CandidatesArgs {
  BoxScores scores;
  Item<u32>* sorted;            // [lines, count]
  Item<u32>* spare;             // [lines, count]
};
static_assert(sizeof(CandidatesArgs) == 40);

struct SuppressArgs {
  const float* boxes;           // [items, count, 4]
  const Item<u32>* sorted;      // [lines, count]
  const i64* limit;             // [1]: boxes that a line keeps at most; null: 0
  const float* threshold;       // [1]: overlap that a box is kept with at most; null: 0
  Corners* corners;             // [lines, keep]
  u32* taken;                   // [lines, keep]
  u32* counts;                  // [lines]
  u32 count, classes, keep;
  u32 padding;
};
static_assert(sizeof(SuppressArgs) == 72);

/// A chunk of every line: its sorted candidates begin … begin + chunk - 1.
struct ChunkArgs {
  const float* boxes;           // [items, count, 4]
  const Item<u32>* sorted;      // [lines, count]
  const i64* limit;             // [1]: boxes that a line keeps at most; null: 0
  const float* threshold;       // [1]: overlap that a box is kept with at most; null: 0
  u32* taken;                   // [lines, keep]
  u32* counts;                  // [lines]
  u32* dead;                    // [lines, chunk / 32]: bits of the candidates that overlap a box taken in a chunk before
  u64* better;                  // [lines, chunk, chunk / 64]: bits of the better candidates of the chunk that one overlaps
  u64* beaten;                  // [lines, chunk / 64, chunk / 64]: by words of rows and of columns, bits of the rows with such a bit
  u32 count, classes, keep, begin;
  u32 tasks, against, splits;   // blocks of a line; those that test against the boxes taken, in so many shares of them
  u32 padding;
};
static_assert(sizeof(ChunkArgs) == 104);

struct EmitTakenArgs {
  const u32* taken;             // [lines, keep]
  const u32* counts;            // [lines]
  i64* y;                       // [found, 3]
  i64* found;                   // [1]
  u32 classes, keep, parts;     // parts: blocks of a line
  u32 padding;
};
static_assert(sizeof(EmitTakenArgs) == 48);

}  // namespace smelt::kernels
