// Reductions: y = Post(result over the reduced axes of Program(x0, x1, …), operands…).
//
//   x0, x1, …    [kept…, reduced…] in any order of axes, each strided or broadcast
//   y, operands  [kept…]
//
// Threads that share a result take its values in turns, in a fixed order, and merge their states by butterflies (rows: the
// elements of a result side by side, Team threads side by side) or in shared memory (columns: results side by side, a thread has
// Vec of them, Team rows of threads). With Splits > 1 a block does one part of the values and leaves its states in `parts`, which
// finish() merges in their order: the same bits at every run.
#pragma once

#include "pointwise/walk.cuh"
#include "reduce/fold.cuh"

/// Chunks [begin, end) of the values that part `split` of `splits` takes.
struct Part {
  u32 begin, end;
  __device__ __forceinline__ Part(u32 chunks, u32 split, u32 splits) {
    const u32 each = (chunks + splits - 1) / splits;
    begin = min(chunks, split * each);
    end = min(chunks, begin + each);
  }
};

/// Merges the states of Team threads side by side (a power of two); all of them get the result. `exchange`: a state a warp.
template <int Team, class S> __device__ __forceinline__ void merge_side_by_side(S& s, S* exchange) {
#pragma unroll
  for (int offset = (Team < 32 ? Team : 32) / 2; offset > 0; offset /= 2) s.merge(from_lane(s, offset));
  if constexpr (Team > 32) {
    constexpr int warps = Team / 32;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) exchange[warp] = s;
    __syncthreads();
    s = exchange[warp / warps * warps + lane % warps];
#pragma unroll
    for (int offset = warps / 2; offset > 0; offset /= 2) s.merge(from_lane(s, offset));
  }
}

/// Merges the states of threads X apart, Team of them; row 0 gets the result. `exchange`: a state a thread, times Vec.
template <int X, int Team, int Vec, class S> __device__ __forceinline__ void merge_rows(S (&s)[Vec], S* exchange) {
  const int x = threadIdx.x % X, row = threadIdx.x / X;
#pragma unroll
  for (int half = Team / 2; half > 0; half /= 2) {
    if (row >= half && row < 2 * half)
#pragma unroll
      for (int e = 0; e < Vec; ++e) exchange[(row * Vec + e) * X + x] = s[e];
    __syncthreads();
    if (row < half)
#pragma unroll
      for (int e = 0; e < Vec; ++e) s[e].merge(exchange[((row + half) * Vec + e) * X + x]);
  }
}

/// Result `number` of all, from the states of its parts, [splits, results], by a warp.
template <class S> __device__ __forceinline__ S merge_parts(const S* parts, u32 number, u32 results, u32 splits) {
  S s;
  for (u32 split = threadIdx.x % 32; split < splits; split += 32) s.merge(parts[static_cast<u64>(split) * results + number]);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) s.merge(from_lane(s, offset));
  return s;
}
