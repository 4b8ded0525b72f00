// What a product by rows that are normalised first has to know of them: while wgmma multiplies a stage, its threads add up the rows' elements
// and their squares, which lie in the same shared memory.
//
//   lines (64 · Rows, 64)   a group's of a stage: thread t % 128 has half of line t / 2 of every 64
#pragma once

#include "common/ptx/memory.cuh"
#include "common/shared.cuh"
#include "common/warp.cuh"
#include "kernels/gemm/hopper.h"

template <class T, int Rows, HopperNorm Norm> class HopperMoments {
  static constexpr bool centre = Norm == HopperNorm::layer;

 public:
  /// Adds a stage's, from `lines` on.
  __device__ __forceinline__ void add(u32 lines) {
    const int line = threadIdx.x % 128 / 2, half = threadIdx.x % 2;
#pragma unroll
    for (int i = 0; i < Rows; ++i)
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        const uint4 x = ptx::ld_shared_v4(lines + i * 8192 + swizzled<128>(line, half * 4 + v));
        const u32 words[] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (const u32 w : words) {
          const float a = f32(T{static_cast<u16>(w)}), b = f32(T{static_cast<u16>(w >> 16)});
          squares_[i] += a * a, squares_[i] += b * b;
          if constexpr (centre) sums_[i] += a + b;
        }
      }
  }

  /// 1 / deviation of the two lines of every 64 that this lane has sums of: lane / 4 and 8 more, of its warp's 16.
  __device__ __forceinline__ void inverse(float (&of)[Rows][2], float inverse_k, float epsilon) const {
#pragma unroll
    for (int i = 0; i < Rows; ++i) {
      const float mean = centre ? sum_lanes<2>(sums_[i]) * inverse_k : 0;
      const float variance = sum_lanes<2>(squares_[i]) * inverse_k - mean * mean;
      const float r = rsqrtf((variance > 0 ? variance : 0) + epsilon);
      const int at = threadIdx.x % 32 / 4 * 2;
      of[i][0] = broadcast(r, at), of[i][1] = broadcast(r, at + 16);
    }
  }

 private:
  float squares_[Rows] = {}, sums_[Rows] = {};
};

/// Where rows are as they are.
template <class T, int Rows> class HopperMoments<T, Rows, HopperNorm::none> {
 public:
  __device__ __forceinline__ void add(u32) {}
};
