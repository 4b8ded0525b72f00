// RNN, GRU and LSTM, one layer. A block runs one direction of one item of the batch from its first step to its last, and keeps
// the state in shared memory. A warp computes a row of the gates at a time.
//
// The equations are those of ONNX's definitions, and so are the order of the gates and the names of the activations:
//
//   RNN     one gate                       f
//   GRU     update, reset, hidden          f, g
//   LSTM    input, output, forget, cell    f, g, h
#pragma once

#include "common/convert.cuh"
#include "common/warp.cuh"
#include "kernels/rnn/recurrent.h"
#include "rnn/rounded.cuh"

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

/// First, Second: types with a direction's f, g and h as static functions; one type where both directions have the same.
template <class First, class Second> struct Activations {
  static constexpr bool same = is_same_type<First, Second>;
  bool second;                // the block's direction
  __device__ __forceinline__ float f(float v) const { return same || !second ? First::f(v) : Second::f(v); }
  __device__ __forceinline__ float g(float v) const { return same || !second ? First::g(v) : Second::g(v); }
  __device__ __forceinline__ float h(float v) const { return same || !second ? First::h(v) : Second::h(v); }
};

/// Rounded: the products read the state as its 8 bits say it.
template <int Gates, class First, class Second, bool Rounded = false, class T, class I>
__device__ __forceinline__ void recur(const RecurrentArgs<T, I>& a) {
  extern __shared__ float memory[];      // h (hidden), cell (LSTM) or scaled h (GRU) (hidden), the gates' sums (Gates * hidden)
  const i64 d = blockIdx.x / a.batch, b = blockIdx.x % a.batch, n = a.hidden;
  float *h = memory, *other = h + n, *sums = other + n;
  const T* const w = a.w + d * Gates * n * a.input;                                 // [Gates * hidden, input]
  const T* const r = a.r + d * Gates * n * n;                                       // [Gates * hidden, hidden]
  const T* const bias = a.bias ? a.bias + d * 2 * Gates * n : nullptr;              // [2 * Gates * hidden]
  const T* const peepholes = a.peepholes ? a.peepholes + d * 3 * n : nullptr;       // [3 * hidden]
  T* const y = a.y;                                                                 // [steps, directions, batch, hidden]
  const i64 state = d * a.state_strides[0] + b * a.state_strides[1];
  const int warp = threadIdx.x / 32, warps = recurrent_threads / 32;
  const auto clipped = [&](float v) { return a.clip > 0 ? fminf(fmaxf(v, -a.clip), a.clip) : v; };
  const Activations<First, Second> act{d == 1};
  for (i64 k = threadIdx.x; k < n; k += recurrent_threads) {
    h[k] = a.first_h ? widened<float>(a.first_h[state + k]) : 0.f;
    if (Gates == 4) other[k] = a.first_c ? widened<float>(a.first_c[state + k]) : 0.f;
  }
  __syncthreads();
  const i64 given = a.lengths ? static_cast<i64>(a.lengths[b]) : a.steps;
  const i64 length = given < 0 ? 0 : given > a.steps ? a.steps : given;             // the processor's kernel refuses others
  const bool backward = a.reverse || d == 1;
  for (i64 s = 0; s < length; ++s) {
    const i64 t = backward ? length - 1 - s : s;
    const T* now = a.x + t * a.x_strides[0] + b * a.x_strides[1];         // [input]
    if constexpr (Rounded) round_state<recurrent_threads>(h, n);
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
      if (y) y[t * a.y_strides[0] + d * a.y_strides[1] + b * a.y_strides[2] + k] = narrowed<T>(next);
    }
    __syncthreads();
  }
  for (i64 k = threadIdx.x; k < n; k += recurrent_threads) {
    if (a.last_h) a.last_h[state + k] = narrowed<T>(h[k]);
    if (a.last_c) a.last_c[state + k] = narrowed<T>(other[k]);
    for (i64 t = length; y && t < a.steps; ++t)
      y[t * a.y_strides[0] + d * a.y_strides[1] + b * a.y_strides[2] + k] = narrowed<T>(0.f);
  }
}
