// Selects the places that are flagged, in their order: each is put at its rank among them.
//
//   flag(place) → bool                 for places 0 … extent - 1
//   put(place, rank, total)            once for each flagged place
//
// A warp has neighbouring places, takes 32 of them at a time and numbers the flagged ones by a ballot. There are two forms. One
// block counts and then puts; or each tile has a block, and three kernels count, scan the counts (scan/scan.cuh) and put. Both
// read the flags twice, and the ranks do not depend on the order in which blocks run.
#pragma once

#include "common/divide.cuh"
#include "common/warp.cuh"
#include "kernels/select/compact.h"
#include "scan/scan.cuh"

/// Counts the flagged places of begin … end, by a warp.
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

/// Each warp has a number. Returns the sum of the numbers of the warps before, and writes the sum of all. By all threads of the
/// block.
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

/// A warp's part of begin … end, which the block shares. Each warp has as many groups of 32, rounded up.
struct Part {
  u32 begin, end;
};
template <int Threads> __device__ __forceinline__ Part part_of(u32 begin, u32 end) {
  const u32 size = (end - begin + Threads - 1) / Threads * 32;
  const u32 first = begin + min(threadIdx.x / 32 * size, end - begin);
  return {first, min(first + size, end)};
}

/// Selects by one block.
template <int Threads, class Flag, class Put> __device__ __forceinline__ void select_block(const SelectArgs<Flag, Put>& a) {
  const Part p = part_of<Threads>(0, a.places.extent);
  u32 total;
  const u32 rank = sum_before<Threads>(count_flagged(a.flag, p.begin, p.end), total);
  if (threadIdx.x == 0) *a.places.count = total;
  put_flagged(a.flag, a.put, p.begin, p.end, rank, total);
}

/// Counts the flagged places of each tile. A block a tile.
template <int Threads, int Tile, class Flag, class Put>
__device__ __forceinline__ void select_count(const SelectArgs<Flag, Put>& a) {
  const u32 begin = blockIdx.x * Tile;
  const Part p = part_of<Threads>(begin, min(begin + Tile, a.places.extent));
  u32 total;
  sum_before<Threads>(count_flagged(a.flag, p.begin, p.end), total);
  if (threadIdx.x == 0) a.places.counts[blockIdx.x] = total;
  if (blockIdx.x == 0 && threadIdx.x == 0) a.places.counts[gridDim.x] = 0;
}

/// Replaces each count by the sum of those before. One block.
template <int Threads, class Flag, class Put> __device__ __forceinline__ void select_scan(const SelectArgs<Flag, Put>& a) {
  scan_rows<u64, RunningSum<u64>, true, false, Threads, 4>(a.places.counts, a.places.counts, a.places.tiles + 1);
}

/// Puts the flagged places of each tile. A block a tile.
template <int Threads, int Tile, class Flag, class Put>
__device__ __forceinline__ void select_put(const SelectArgs<Flag, Put>& a) {
  const u32* const counts = a.places.counts;                                // (tiles + 1)
  const u32 begin = blockIdx.x * Tile, total = counts[gridDim.x];
  const Part p = part_of<Threads>(begin, min(begin + Tile, a.places.extent));
  u32 of_tile;
  const u32 rank = sum_before<Threads>(count_flagged(a.flag, p.begin, p.end), of_tile);
  if (blockIdx.x == 0 && threadIdx.x == 0) *a.places.count = total;
  put_flagged(a.flag, a.put, p.begin, p.end, counts[blockIdx.x] + rank, total);
}

/// Copies the flagged slices among the first `flags` of each outer index. A thread a unit of x.
template <class Unit> __device__ __forceinline__ void copy_flagged(const CopyFlaggedArgs<Unit>& a) {
  const u32 number = blockIdx.x * blockDim.x + threadIdx.x;
  if (number >= a.units) return;
  const u32 slice = a.row.quotient(number), u = number - slice * a.row.divisor;
  const u32 o = a.extent.quotient(slice), e = slice - o * a.extent.divisor;
  if (e >= a.flags || !a.flag[e]) return;
  a.y[(static_cast<u64>(o) * static_cast<u64>(*a.count) + a.ranks[e]) * a.row.divisor + u] = a.x[number];
}
