// Sums over the threads that share a row, in the same order every time, so the same bits every run.
#pragma once

#include "common/types.cuh"

/// Threads (a power of two) side by side share a row, Rows rows a block. Every one of them gets the sum. `exchange` is shared
/// memory of Rows * Threads / 32 floats, used for this sum alone.
template <int Threads, int Rows> __device__ __forceinline__ float row_sum(float value, float* exchange) {
#pragma unroll
  for (int offset = (Threads < 32 ? Threads : 32) / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  if constexpr (Threads > 32) {
    constexpr int warps = Threads / 32;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) exchange[warp] = value;
    __syncthreads();
    value = exchange[warp / warps * warps + lane % warps];
#pragma unroll
    for (int offset = warps / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}
