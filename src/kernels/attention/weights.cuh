// How kernels that go over the keys tile by tile make weights of scores: powers of two, and what a new maximum does to the sums.
#pragma once

#include "attention/problem.cuh"
#include "common/ptx/numbers.cuh"
#include "common/types.cuh"

namespace smelt_flash {

constexpr float log2e = 1.4426950408889634f;

__device__ __forceinline__ float exp2_of(float x) { return ptx::ex2_approx_ftz_f32(x); }

template <class T> __device__ __forceinline__ u32 rounded_pair(float low, float high);
template <> __device__ __forceinline__ u32 rounded_pair<f16>(float low, float high) {
  return ptx::cvt_rn_f16x2_f32(high, low);
}
template <> __device__ __forceinline__ u32 rounded_pair<bf16>(float low, float high) {
  return ptx::cvt_rn_bf16x2_f32(high, low);
}

/// The factor that scales a sum or a weight from maximum `old` to maximum `now`: exp(old - now), 0 where `old` is minus
/// infinity. Neither may be NaN.
__device__ __forceinline__ float faded_by(float old, float now) {
  return exp2_of((old - (now == minus_infinity ? 0.f : now)) * log2e);
}

}  // namespace smelt_flash
