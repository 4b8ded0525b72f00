// RNN, GRU and LSTM, one layer: a block runs one direction of one item from its first step to its last, its state in shared
// memory; a warp makes a row of the gates at a time.
//
//   x [steps, batch, input], w [directions, Gates * hidden, input], r [directions, Gates * hidden, hidden], bias [directions, 2 *
//   Gates * hidden]
//
// The equations, the order of the gates and the names of the activations are those of ONNX's definitions: RNN one gate, f; GRU
// update, reset, hidden, f and g; LSTM input, output, forget, cell, f, g and h.
#pragma once

#include "common/convert.cuh"
#include "common/warp.cuh"
#include "kernels/rnn/recurrence.h"

constexpr int recurrent_threads = 256;

template <class T> __device__ __forceinline__ float dot(const T* row, const T* x, i64 n) {
  float sum = 0;
  for (i64 i = threadIdx.x % 32; i < n; i += 32) sum += widened<float>(row[i]) * widened<float>(x[i]);
  return sum;
}
template <class T> __device__ __forceinline__ float dot_state(const T* row, const float* h, i64 n) {
  float sum = 0;
  for (i64 i = threadIdx.x % 32; i < n; i += 32) sum += widened<float>(row[i]) * h[i];
  return sum;
}

/// First, Second: static functions f, g and h of a direction; one type where both directions have the same.
template <class First, class Second> struct Activations {
  static constexpr bool same = is_same_type<First, Second>;
  bool second;                // the block's direction
  __device__ __forceinline__ float f(float v) const { return same || !second ? First::f(v) : Second::f(v); }
  __device__ __forceinline__ float g(float v) const { return same || !second ? First::g(v) : Second::g(v); }
  __device__ __forceinline__ float h(float v) const { return same || !second ? First::h(v) : Second::h(v); }
};

template <int Gates, class First, class Second, class T, class I>
__device__ __forceinline__ void recur(const T* x, const T* w, const T* r, const T* bias, const I* lengths, const T* first_h,
                                      const T* first_c, const T* peepholes, T* y, T* last_h, T* last_c, const Recurrence& a) {
  extern __shared__ float memory[];      // h, cell (LSTM) or scaled h (GRU), the gates' sums
  const i64 d = blockIdx.x / a.batch, b = blockIdx.x % a.batch, n = a.hidden;
  float *h = memory, *other = h + n, *sums = other + n;
  w += d * Gates * n * a.input, r += d * Gates * n * n;
  if (bias) bias += d * 2 * Gates * n;
  if (peepholes) peepholes += d * 3 * n;
  const i64 state = d * a.state[0] + b * a.state[1];
  const int warp = threadIdx.x / 32, warps = recurrent_threads / 32;
  const auto clipped = [&](float v) { return a.clip > 0 ? fminf(fmaxf(v, -a.clip), a.clip) : v; };
  const Activations<First, Second> act{d == 1};
  for (i64 k = threadIdx.x; k < n; k += recurrent_threads) {
    h[k] = first_h ? widened<float>(first_h[state + k]) : 0.f;
    if (Gates == 4) other[k] = first_c ? widened<float>(first_c[state + k]) : 0.f;
  }
  __syncthreads();
  const i64 length = lengths ? static_cast<i64>(lengths[b]) : a.steps;
  const bool backward = a.reverse || d == 1;
  for (i64 s = 0; s < length; ++s) {
    const i64 t = backward ? length - 1 - s : s;
    const T* now = x + t * a.x[0] + b * a.x[1];                           // [input]
    for (i64 g = warp; g < Gates * n; g += warps) {
      float sum = dot(w + g * a.input, now, a.input);
      const bool later = Gates == 3 && g >= 2 * n;                          // GRU's hidden gate reads the state after the reset
      if (!later) sum += dot_state(r + g * n, h, n);
      sum = sum_lanes(sum);
      if (bias) sum += widened<float>(bias[g]) + widened<float>(bias[Gates * n + g]);
      if (threadIdx.x % 32 == 0) sums[g] = sum;
    }
    __syncthreads();
    if constexpr (Gates == 3) {
      for (i64 k = threadIdx.x; k < n; k += recurrent_threads) {
        sums[k] = act.f(clipped(sums[k]));                          // update
        sums[n + k] = act.f(clipped(sums[n + k]));                  // reset
        other[k] = a.linear_before_reset ? h[k] : sums[n + k] * h[k];
      }
      __syncthreads();
      for (i64 g = warp; g < n; g += warps) {
        float sum = sum_lanes(dot_state(r + (2 * n + g) * n, other, n));
        const float own = bias ? widened<float>(bias[5 * n + g]) : 0.f;
        if (a.linear_before_reset) sum = sums[n + g] * (sum + own) - own;
        if (threadIdx.x % 32 == 0) sums[2 * n + g] += sum;
      }
      __syncthreads();
    }
    for (i64 k = threadIdx.x; k < n; k += recurrent_threads) {
      float next;
      if constexpr (Gates == 1) {
        next = act.f(clipped(sums[k]));
      } else if constexpr (Gates == 3) {
        next = (1 - sums[k]) * act.g(clipped(sums[2 * n + k])) + sums[k] * h[k];
      } else {
        const auto peeped = [&](int gate) { return peepholes ? widened<float>(peepholes[gate * n + k]) * other[k] : 0.f; };
        const float in = act.f(clipped(sums[k] + peeped(0)));
        const float forget = a.input_forget ? 1 - in : act.f(clipped(sums[2 * n + k] + peeped(2)));
        other[k] = forget * other[k] + in * act.g(clipped(sums[3 * n + k]));
        next = act.f(clipped(sums[n + k] + peeped(1))) * act.h(other[k]);
      }
      h[k] = next;
      if (y) y[t * a.y[0] + d * a.y[1] + b * a.y[2] + k] = narrowed<T>(next);
    }
    __syncthreads();
  }
  for (i64 k = threadIdx.x; k < n; k += recurrent_threads) {
    if (last_h) last_h[state + k] = narrowed<T>(h[k]);
    if (last_c) last_c[state + k] = narrowed<T>(other[k]);
    for (i64 t = length; y && t < a.steps; ++t) y[t * a.y[0] + d * a.y[1] + b * a.y[2] + k] = narrowed<T>(0.f);
  }
}
