// What both forms of NonMaxSuppression share (detect/nms.cuh, detect/nms_chunks.cuh): the order of the candidates, boxes as the
// reference has them, and what is written of those that were taken.
#pragma once

#include "kernels/detect/nms.h"
#include "sort/sort.cuh"
#include "common/warp.cuh"

/// Gives scores as keys for sorting, the best first. Those below the lowest score, and NaN, come after all others.
struct ByScore : BoxScores {
  using Key = u32;
  __device__ __forceinline__ Item<u32> operator()(u32 line, u32 place) const {
    const float s = scores[static_cast<u64>(line) * count + place];
    const bool candidate = lowest ? s >= *lowest : s == s;
    return {candidate ? ~Ordered<float>::key(s) : 0xffffffffu, place};
  }
};

// Like std::min and std::max they return the first argument where one is NaN.
template <class A> __device__ __forceinline__ A first_min(A a, A b) { return b < a ? b : a; }
template <class A> __device__ __forceinline__ A first_max(A a, A b) { return a < b ? b : a; }

/// A box as the reference has it. No product and sum become one multiply-add.
template <bool Centered> struct ExactBox {
  double y1, x1, y2, x2;
  __device__ __forceinline__ explicit ExactBox(const float* v) {
    if constexpr (Centered) {
      y1 = __dsub_rn(v[1], v[3] * 0.5), x1 = __dsub_rn(v[0], v[2] * 0.5);
      y2 = __dadd_rn(v[1], v[3] * 0.5), x2 = __dadd_rn(v[0], v[2] * 0.5);
    } else {
      y1 = first_min(v[0], v[2]), x1 = first_min(v[1], v[3]), y2 = first_max(v[0], v[2]), x2 = first_max(v[1], v[3]);
    }
  }
  __device__ __forceinline__ explicit ExactBox(const Corners& c) : y1(c.y1), x1(c.x1), y2(c.y2), x2(c.x2) {}
  __device__ __forceinline__ double area() const { return __dmul_rn(__dsub_rn(y2, y1), __dsub_rn(x2, x1)); }
  __device__ __forceinline__ Corners corners() const {
    return {__double2float_rd(y1), __double2float_rd(x1), __double2float_ru(y2), __double2float_ru(x2)};
  }
  /// Returns whether intersection over union is more than the threshold.
  __device__ __forceinline__ bool overlaps(const ExactBox& b, double threshold) const {
    const double h = __dsub_rn(first_min(y2, b.y2), first_max(y1, b.y1)), w = __dsub_rn(first_min(x2, b.x2), first_max(x1, b.x1));
    const double own = area(), other = b.area();
    if (h <= 0 || w <= 0 || own <= 0 || other <= 0) return false;
    const double both = __dmul_rn(h, w);
    return __ddiv_rn(both, __dsub_rn(__dadd_rn(own, other), both)) > threshold;
  }
};

/// Sorts the candidates of line blockIdx.x; most boxes score too little to be one. They are gathered and sorted in shared memory.
/// Where they are more than a tile, each further tile is merged with those before. Behind the candidates, `sorted` gets keys of
/// ~0 as far as `suppress` looks.
template <int Threads, int Tile, int Chunk>
__device__ __forceinline__ void sort_candidates(const CandidatesArgs& a) {
  static_assert(Tile % Threads == 0, "a tile takes whole rounds of the block");
  __shared__ alignas(16) unsigned char memory[sizeof(Item<u32>) * Tile];
  __shared__ u32 next;
  auto* items = reinterpret_cast<Item<u32>*>(memory);
  const ByScore source{a.scores};
  const u32 line = blockIdx.x, count = source.count;
  Item<u32>* const sorted = a.sorted + static_cast<u64>(line) * count;                      // (count)
  Item<u32>* const spare = a.spare + static_cast<u64>(line) * count;                        // (count)
  Item<u32>*from = spare, *to = sorted;
  u32 total = 0;
  for (u32 begin = 0; begin < count;) {
    if (threadIdx.x == 0) next = 0;
    __syncthreads();
    u32 found = 0;
    for (; begin < count && found + Threads <= Tile; begin += Threads) {
      const u32 place = begin + threadIdx.x;
      const Item<u32> item = place < count ? source(line, place) : last_item<u32>();
      const bool candidate = item.key != 0xffffffffu;
      const u32 here = __ballot_sync(full_warp, candidate), lane = threadIdx.x % 32;
      u32 at = lane == 0 && here ? atomicAdd(&next, static_cast<u32>(__popc(here))) : 0;   // in any order: they are sorted
      at = broadcast(at, 0) + __popc(here & ((1u << lane) - 1));
      if (candidate) items[at] = item;
      found += __syncthreads_count(candidate);
    }
    u32 n = 4;
    while (n < found) n *= 2;
    for (u32 i = found + threadIdx.x; i < n; i += Threads) items[i] = last_item<u32>();
    sort_by_fours(items, n);
    for (u32 i = threadIdx.x; i < found; i += Threads) to[i + count_before(from, total, items[i])] = items[i];
    for (u32 i = threadIdx.x; i < total; i += Threads) to[i + count_before(items, found, from[i])] = from[i];
    total += found;
    __syncthreads();
    Item<u32>* const merged = to;
    to = from, from = merged;
  }
  for (u32 i = threadIdx.x; from != sorted && i < total; i += Threads) sorted[i] = from[i];
  const u32 end = min(count, (total / Chunk + 2) * Chunk);
  for (u32 i = total + threadIdx.x; i < end; i += Threads) sorted[i] = last_item<u32>();
}

/// Writes item, class and box of what was taken, line after line. `parts` blocks a line.
__device__ __forceinline__ void emit_taken(const EmitTakenArgs& a) {
  __shared__ u32 before;
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  const u32 line = blockIdx.x / a.parts, part = blockIdx.x - line * a.parts, own = a.counts[line];
  u32 sum = 0;
  for (u32 l = threadIdx.x; l < line; l += blockDim.x) sum += a.counts[l];
  if (sum) atomicAdd(&before, sum);   // whole numbers: the same in any order
  __syncthreads();
  for (u32 i = part * blockDim.x + threadIdx.x; i < own; i += a.parts * blockDim.x) {
    i64* row = a.y + (static_cast<u64>(before) + i) * 3;                                 // (3)
    row[0] = line / a.classes, row[1] = line % a.classes, row[2] = a.taken[static_cast<u64>(line) * a.keep + i];
  }
  if (blockIdx.x + 1 == gridDim.x && threadIdx.x == 0) *a.found = static_cast<i64>(before) + own;
}
