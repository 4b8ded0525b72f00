// Pooling: each output is the fold of the elements under its window.
//
//   y[n, c, o]     = fold over taps k of x[n, c, o * stride + k * dilation - pad]     taps outside of the image do not count
//   index[n, c, o] = the place of the maximum in x                                    i64, dense, where Indexed
//
//   x, y    [N, C, D, H, W] of any strides; Last: channels are contiguous, a chunk of y is Vec of them; else it is one element
//
// Launch: one thread per chunk of y.
//
// Where taps are few, their loops are unrolled, so that their loads are in flight together. Images of fewer than three spatial
// axes have axes of extent 1 in front.
#pragma once

#include "kernels/pool/window.h"
#include "pool/fold.cuh"

template <Pool Kind, bool Last, bool Indexed, int KD, int KH, int KW, int Vec, class T>
__device__ __forceinline__ void pool_windows(const PoolWindowArgs<T>& g) {
  const u32 chunk = blockIdx.x * blockDim.x + threadIdx.x;
  if (chunk >= g.chunks) return;
  u32 at[5], rest = chunk;                                                  // inner to outer
#pragma unroll
  for (int a = 0; a < 4; ++a) {
    const u32 quotient = g.extents[a].quotient(rest);
    at[a] = rest - quotient * g.extents[a].divisor;
    rest = quotient;
  }
  const i64 n = rest, c = Last ? at[0] * Vec : at[3];
  const int o[3] = {int(at[Last ? 3 : 2]), int(at[Last ? 2 : 1]), int(at[Last ? 1 : 0])};
  int first[3];                                                             // the first tap's place in the image
#pragma unroll
  for (int a = 0; a < 3; ++a) first[a] = o[a] * g.stride[a] - g.pad[a];
  const T* image = g.x + n * g.from[0] + c * g.from[1];                     // [D, H, W]

  using W = wide_t<T>;
  W sum[Vec];                                                               // (Vec)
  i64 best = -1;                                                            // index of the maximum so far; -1: none
#pragma unroll
  for (int e = 0; e < Vec; ++e) sum[e] = nothing<Kind, T>();
  constexpr int unroll_rows = KH * KW <= 25 ? KH : 1, unroll_columns = KW <= 8 ? KW : 4;
#pragma unroll 1
  for (int kd = 0; kd < KD; ++kd) {
    const int d = first[0] + kd * g.dilation[0];
    if (d < 0 || d >= g.in[0]) continue;
#pragma unroll unroll_rows
    for (int kh = 0; kh < KH; ++kh) {
      const int h = first[1] + kh * g.dilation[1];
      if (h < 0 || h >= g.in[1]) continue;
      const T* row = image + d * g.from[2] + h * g.from[3];                 // [W]
#pragma unroll unroll_columns
      for (int kw = 0; kw < KW; ++kw) {
        const int w = first[2] + kw * g.dilation[2];
        if (w < 0 || w >= g.in[2]) continue;
        const Vector<T, Vec> v = *reinterpret_cast<const Vector<T, Vec>*>(row + w * g.from[4]);
#pragma unroll
        for (int e = 0; e < Vec; ++e) {
          const W one = widened<W>(v.at[e]);
          if constexpr (Indexed) {
            if (best < 0 || replaces(one, sum[e])) {
              best = d * g.index_step[0] + h * g.index_step[1] + w * g.index_step[2];
              sum[e] = one;
            }
          } else {
            fold<Kind>(sum[e], one);
          }
        }
      }
    }
  }
  if constexpr (Kind != Pool::max) {
    int count = 1;
    constexpr int taps[3] = {KD, KH, KW};
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      const int begin = Kind == Pool::mean ? -g.pad[a] : 0, end = g.in[a] + (Kind == Pool::mean ? g.pad_end[a] : 0);
      int inside = 0;
      for (int k = 0; k < taps[a]; ++k) {
        const int place = first[a] + k * g.dilation[a];
        inside += place >= begin && place < end;
      }
      count *= inside;
    }
#pragma unroll
    for (int e = 0; e < Vec; ++e) sum[e] = count ? sum[e] / static_cast<W>(count) : W(0);
  }
  Vector<T, Vec> out;                                                       // (Vec)
#pragma unroll
  for (int e = 0; e < Vec; ++e) out.at[e] = narrowed<T>(sum[e]);
  *reinterpret_cast<Vector<T, Vec>*>(g.y + n * g.to[0] + c * g.to[1] + o[0] * g.to[2] + o[1] * g.to[3] + o[2] * g.to[4]) = out;
  if constexpr (Indexed) {
    const i64 channels = g.extents[3].divisor;
    g.index[n * g.index_to[0] + c * g.index_to[1] + o[0] * g.index_to[2] + o[1] * g.index_to[3] + o[2] * g.index_to[4]] =
        best < 0 ? 0 : (n * channels + c) * g.plane + best;
  }
}
