// Attention with a warp for each query row. It takes every type, depth, stride and mask, also those that fit no tile.
//
//   q, k, v, y    as attention/problem.cuh says, with any strides; Width neighbouring elements of q and k are read in one access
//   Scores        changes a score: scores.seek(b, h), then scores.at(i, j, x)
//
// Each lane takes one of 32 keys and sums its products in Computing<T>. The softmax's maximum and sum are updated key by key
// (Milakov and Gimelshein, arXiv:1805.02867), so no score is written. Lane l then sums columns l, l + 32, … of the values: Held
// of them in a block, the others in the blocks along the grid's y.
//
// Launch: (rows / Warps, columns / (32 Held)) blocks of 32 Warps threads.
#pragma once

#include "attention/element.cuh"
#include "attention/problem.cuh"
#include "attention/scores.cuh"
#include "common/warp.cuh"

__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }
__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double larger(double a, double b) { return fmax(a, b); }

template <class T, int Width>
__device__ __forceinline__ Computing<T> dot(const T* a, i64 a_step, const T* b, i64 b_step, u32 n) {
  Computing<T> sum = 0;
  if constexpr (Width > 1) {
    for (u32 e = 0; e < n; e += Width) {
      const Vector<T, Width> x = *reinterpret_cast<const Vector<T, Width>*>(a + e),
                             y = *reinterpret_cast<const Vector<T, Width>*>(b + e);
#pragma unroll
      for (int i = 0; i < Width; ++i) sum += computing(x.at[i]) * computing(y.at[i]);
    }
  } else {
    for (u32 e = 0; e < n; ++e) sum += computing(a[e * a_step]) * computing(b[e * b_step]);
  }
  return sum;
}

template <int Width, int Warps, int Held, class Scores, class T, int Operands>
__device__ __forceinline__ void plain_attention(const WithScores<AttentionProblem<T>, Operands>& a) {
  using C = Computing<T>;
  const AttentionProblem<T>& p = a.args;
  constexpr C lowest = static_cast<C>(minus_infinity);
  const u32 lane = threadIdx.x % 32;
  const u32 row = blockIdx.x * Warps + threadIdx.x / 32;
  if (row >= p.batch * p.heads * p.queries) return;
  const u32 i = row % p.queries, pair = row / p.queries, h = pair % p.heads, b = pair / p.heads, g = h / p.group;
  const T* const q = p.q + b * p.q_strides[0] + h * p.q_strides[1] + i * p.q_strides[2];     // [depth]
  const T* const k = p.k + b * p.k_strides[0] + g * p.k_strides[1];                         // [keys, depth]
  const T* const v = p.v + b * p.v_strides[0] + g * p.v_strides[1];                         // [keys, value_depth]
  T* const y = p.y + b * p.y_strides[0] + h * p.y_strides[1] + i * p.y_strides[2];           // [value_depth]
  Scores scores(a.operands);
  scores.seek(b, h);
  const u32 first = blockIdx.y * 32 * Held + lane;      // of this lane's columns

  C top = lowest, total = 0, sums[Held] = {};           // (Held) of the columns
  for (u32 begin = 0; begin < p.keys; begin += 32) {
    const u32 j = begin + lane;
    C x = lowest;
    if (j < p.keys) {
      const T* key = k + j * p.k_strides[2];            // [depth]
      x = scores.at(i, j, static_cast<C>(p.scale) * dot<T, Width>(q, p.q_strides[3], key, p.k_strides[3], p.depth));
    }
    const C highest = larger(fold_lanes(x, [](C a, C z) { return larger(a, z); }), top);
    const C base = highest == lowest ? 0 : highest;     // nothing is visible yet: exp(lowest - 0) is 0
    const C faded = exponential(top - base), weight = j < p.keys ? exponential(x - base) : 0;
    top = highest;
    total = total * faded + sum_lanes(weight);
#pragma unroll
    for (int c = 0; c < Held; ++c) sums[c] *= faded;
    const u32 count = p.keys - begin < 32 ? p.keys - begin : 32;
    for (u32 n = 0; n < count; ++n) {
      const C w = broadcast(weight, n);
      const T* values = v + (begin + n) * p.v_strides[2];       // [value_depth]
#pragma unroll
      for (int c = 0; c < Held; ++c)
        if (first + 32 * c < p.value_depth) sums[c] += w * computing(values[(first + 32 * c) * p.v_strides[3]]);
    }
  }
  const bool hidden = !(total > 0);                     // 0, or NaN
  const C factor = hidden && (p.nan_guard || p.keys == 0) ? 0 : 1 / total;
#pragma unroll
  for (int c = 0; c < Held; ++c)
    if (first + 32 * c < p.value_depth) {
      const C result = hidden && factor == 0 ? 0 : sums[c] * factor;
      y[(first + 32 * c) * p.y_strides[3]] = narrowed<T>(result);
    }
}
