// Places that are flagged, in their order: each is put at its rank among them.
//
//   flag(place) → bool                 for places 0 … extent - 1
//   put(place, rank, total)            once for each flagged one
//
// A warp has neighbouring places, takes 32 of them at a time and numbers the flagged ones by a ballot. Two forms: a block that
// counts and then puts; or tiles, a block each: counted, their counts scanned (scan/scan.cuh), put. Both pass over the flags
// twice; whatever runs when, the ranks are the same.
#pragma once

#include "common/divide.cuh"
#include "common/warp.cuh"
#include "scan/scan.cuh"

/// Of begin … end, by a warp.
template <class Flag> __device__ __forceinline__ u32 count_flagged(const Flag& flag, u32 begin, u32 end) {
  const u32 lane = threadIdx.x % 32;
  u32 count = 0;
#pragma unroll 4
  for (u32 i = begin; i < end; i += 32) count += __popc(__ballot_sync(full_warp, i + lane < end && flag(i + lane)));
  return count;
}

template <class Flag, class Put>
__device__ __forceinline__ void put_flagged(const Flag& flag, const Put& put, u32 begin, u32 end, u32 rank, u32 total) {
  const u32 lane = threadIdx.x % 32, before = (1u << lane) - 1;
#pragma unroll 2
  for (u32 i = begin; i < end; i += 32) {
    const bool here = i + lane < end && flag(i + lane);
    const u32 flagged = __ballot_sync(full_warp, here);
    if (here) put(i + lane, rank + __popc(flagged & before), total);
    rank += __popc(flagged);
  }
}

/// Of a number for each warp: the sum of those of the warps before, and of all. By all threads of the block.
template <int Threads> __device__ __forceinline__ u32 sum_before(u32 of_warp, u32& total) {
  __shared__ u32 warps[Threads / 32];
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = of_warp;
  __syncthreads();
  u32 before = 0;
  total = 0;
#pragma unroll
  for (u32 w = 0; w < Threads / 32; ++w) {
    if (w == threadIdx.x / 32) before = total;
    total += warps[w];
  }
  __syncthreads();
  return before;
}

/// A warp's part of begin … end, which the block shares: as many groups of 32 each, rounded up.
struct Part {
  u32 begin, end;
};
template <int Threads> __device__ __forceinline__ Part part_of(u32 begin, u32 end) {
  const u32 size = (end - begin + Threads - 1) / Threads * 32;
  const u32 first = begin + min(threadIdx.x / 32 * size, end - begin);
  return {first, min(first + size, end)};
}

/// count: i64 [1]. One block.
template <int Threads, class Flag, class Put>
__device__ __forceinline__ void select_block(const Flag& flag, const Put& put, u32 extent, i64* count) {
  const Part p = part_of<Threads>(0, extent);
  u32 total;
  const u32 rank = sum_before<Threads>(count_flagged(flag, p.begin, p.end), total);
  if (threadIdx.x == 0) *count = total;
  put_flagged(flag, put, p.begin, p.end, rank, total);
}

/// counts: u32 [tiles + 1], the last 0. A block a tile.
template <int Threads, int Tile, class Flag>
__device__ __forceinline__ void select_count(const Flag& flag, u32 extent, u32* counts) {
  const u32 begin = blockIdx.x * Tile;
  const Part p = part_of<Threads>(begin, min(begin + Tile, extent));
  u32 total;
  sum_before<Threads>(count_flagged(flag, p.begin, p.end), total);
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
  if (blockIdx.x == 0 && threadIdx.x == 0) counts[gridDim.x] = 0;
}

/// The counts as the sums of those before, in place. One block.
template <int Threads> __device__ __forceinline__ void select_scan(u32* counts, u32 tiles) {
  scan_rows<u64, RunningSum<u64>, true, false, Threads, 4>(counts, counts, tiles + 1);
}

template <int Threads, int Tile, class Flag, class Put>
__device__ __forceinline__ void select_put(const Flag& flag, const Put& put, u32 extent, const u32* counts, i64* count) {
  const u32 begin = blockIdx.x * Tile, total = counts[gridDim.x];
  const Part p = part_of<Threads>(begin, min(begin + Tile, extent));
  u32 of_tile;
  const u32 rank = sum_before<Threads>(count_flagged(flag, p.begin, p.end), of_tile);
  if (blockIdx.x == 0 && threadIdx.x == 0) *count = total;
  put_flagged(flag, put, p.begin, p.end, counts[blockIdx.x] + rank, total);
}

/// An element that has any bit of the mask: all but the sign for floating-point types, so that both zeros are zero and NaN is
/// not.
template <class Word, Word Mask> struct HasBits {
  const Word* x;
  __device__ __forceinline__ bool operator()(u32 i) const { return (x[i] & Mask) != 0; }
};

/// y [Rank, total]: the place's index along each axis.
template <int Rank> struct Extents { Divider of[Rank]; };
template <int Rank> struct PutIndices {
  i64* y;
  const Extents<Rank>& extents;
  __device__ __forceinline__ void operator()(u32 place, u32 rank, u32 total) const {
#pragma unroll
    for (int a = Rank - 1; a >= 0; --a) {
      const u32 rest = extents.of[a].quotient(place);
      y[static_cast<u64>(a) * total + rank] = place - rest * extents.of[a].divisor;
      place = rest;
    }
  }
};

/// y [total]: the elements themselves.
template <class Word> struct PutElement {
  const Word* x;
  Word* y;
  __device__ __forceinline__ void operator()(u32 place, u32 rank, u32) const { y[rank] = x[place]; }
};

/// ranks [extent]: for who copies what is flagged.
struct PutRank {
  u32* ranks;
  __device__ __forceinline__ void operator()(u32 place, u32 rank, u32) const { ranks[place] = rank; }
};

/// x [outer, extent, row] → y [outer, count, row]: the flagged slices among the first `flags`. A thread a unit of x.
template <class Unit> __device__ __forceinline__ void copy_flagged(const Unit* x, const u8* flag, const u32* ranks,
                                                                   const i64* count, Unit* y, u32 units, Divider row,
                                                                   Divider extent, u32 flags) {
  const u32 number = blockIdx.x * blockDim.x + threadIdx.x;
  if (number >= units) return;
  const u32 slice = row.quotient(number), u = number - slice * row.divisor;
  const u32 o = extent.quotient(slice), e = slice - o * extent.divisor;
  if (e >= flags || !flag[e]) return;
  y[(static_cast<u64>(o) * static_cast<u64>(*count) + ranks[e]) * row.divisor + u] = x[number];
}
