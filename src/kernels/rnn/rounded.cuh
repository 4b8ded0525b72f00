// What DynamicQuantizeLSTM makes of its operands: values rounded to the 8 bits of DynamicQuantizeLinear, in floats again. X has one
// range over all steps that any item takes (range_of_input, then rounded_input), an item's state its own at every step (round_state).
#pragma once

#include "common/convert.cuh"
#include "common/warp.cuh"
#include "kernels/rnn/rounded.h"

constexpr int round_threads = 256;

/// Zero is always in it.
struct ByteRange {
  float low, high;
};
struct WiderRange {
  __device__ __forceinline__ ByteRange operator()(const ByteRange& a, const ByteRange& b) const {
    return {fminf(a.low, b.low), fmaxf(a.high, b.high)};
  }
};

/// The 8 bits that a range gives.
struct ByteScale {
  float scale, zero;
  __device__ __forceinline__ explicit ByteScale(const ByteRange& r)
      : scale(r.high == r.low ? 1.f : (r.high - r.low) / 255), zero(fminf(fmaxf(rintf(-r.low / scale), 0.f), 255.f)) {}
  __device__ __forceinline__ float rounded(float v) const {
    return (fminf(fmaxf(rintf(v / scale) + zero, 0.f), 255.f) - zero) * scale;
  }
};

/// Rounds [n] of shared memory. All Threads threads of the block call it; they meet behind it.
template <int Threads> __device__ __forceinline__ void round_state(float* h, i64 n) {
  const WiderRange wider;
  ByteRange range{0, 0};
#pragma unroll 1
  for (i64 k = threadIdx.x % 32; k < n; k += 32) range = wider(range, {h[k], h[k]});
  const ByteScale bytes(fold_lanes(range, wider));
  __syncthreads();
#pragma unroll 1
  for (i64 k = threadIdx.x; k < n; k += Threads) h[k] = bytes.rounded(h[k]);
  __syncthreads();
}

/// Launch: a.parts blocks; each writes the range of its part of x.
__device__ __forceinline__ void range_of_input(const RoundedInputArgs& a) {
  __shared__ i32 longest[round_threads / 32];
  __shared__ ByteRange ranges[round_threads / 32];
  const auto larger = [](i32 x, i32 y) { return x > y ? x : y; };
  i32 most = 0;
  for (i64 b = threadIdx.x; a.lengths && b < a.batch; b += round_threads) most = larger(most, a.lengths[b]);
  most = fold_team<round_threads>(most, longest, larger);
  const i64 taken = a.lengths ? most : a.steps, n = a.steps * a.batch * a.input;
  const WiderRange wider;
  ByteRange range{0, 0};
  for (i64 i = static_cast<i64>(blockIdx.x) * round_threads + threadIdx.x; i < n; i += static_cast<i64>(a.parts) * round_threads) {
    const i64 t = a.batch_first ? i / a.input % a.steps : i / (a.batch * a.input);
    if (t < taken) range = wider(range, {a.x[i], a.x[i]});
  }
  range = fold_team<round_threads>(range, ranges, wider);
  if (threadIdx.x == 0) a.ranges[2 * blockIdx.x] = range.low, a.ranges[2 * blockIdx.x + 1] = range.high;
}

/// Launch: a.parts blocks.
__device__ __forceinline__ void rounded_input(const RoundedInputArgs& a) {
  const i64 n = a.steps * a.batch * a.input;
  const WiderRange wider;
  ByteRange range{0, 0};
  for (u32 p = threadIdx.x % 32; p < a.parts; p += 32) range = wider(range, {a.ranges[2 * p], a.ranges[2 * p + 1]});
  const ByteScale bytes(fold_lanes(range, wider));
  for (i64 i = static_cast<i64>(blockIdx.x) * round_threads + threadIdx.x; i < n; i += static_cast<i64>(a.parts) * round_threads)
    a.y[i] = bytes.rounded(a.x[i]);
}
