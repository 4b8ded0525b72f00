// ONNX's Attention in every form: a cache before the keys and values, masks of any type and shape, windows, lengths that lie on
// the device, soft capping, the scores as an output. A block has a query; its scores lie in a workspace.
//
//   q [batch, heads, steps, size], k and v [batch, kv_heads, total, size and v_size]; total = cached + fresh steps
//   score = cap(scale * q·k) + bias;   y = softmax(score) v, zeros where all scores are minus infinity
#pragma once

#include "common/convert.cuh"
#include "common/warp.cuh"
#include "kernels/attention/general.h"

constexpr int attention_threads = 128;

/// Folds all threads' values; every thread gets the result.
template <class Fold> __device__ __forceinline__ float over_block(float v, float* exchange, const Fold& fold) {
  v = fold_lanes(v, fold);
  __syncthreads();                       // what was exchanged before has been read
  if (threadIdx.x % 32 == 0) exchange[threadIdx.x / 32] = v;
  __syncthreads();
  v = exchange[0];
  for (int w = 1; w < attention_threads / 32; ++w) v = fold(v, exchange[w]);
  return v;
}

/// What is added to the score of query i and key j.
template <class T, class M>
__device__ __forceinline__ float bias_of(const GeneralArgs<T, M>& a, i64 b, i64 h, i64 i, i64 j) {
  const float hidden = __int_as_float(0xff800000);
  i64 offset = a.k.past_steps;
  if (a.lengths) {
    const i64 length = a.lengths[b] < 0 ? 0 : a.lengths[b] > a.total ? a.total : a.lengths[b];
    if (j >= length) return hidden;
    offset = length - a.steps;
  }
  const i64 position = i + offset;
  // Windows have any width up to 2^63 - 1: differences of places cannot wrap.
  if ((a.causal && j > position) || (a.left >= 0 && position - j > a.left) || (a.right >= 0 && j - position > a.right))
    return hidden;
  if (!a.mask) return 0;
  if (j >= a.columns) return hidden;
  const M m = a.mask[b * a.mask_strides[0] + h * a.mask_strides[1] + i * a.mask_strides[2] + j * a.mask_strides[3]];
  if constexpr (is_same_type<M, bool>) return m ? 0.f : hidden;
  else return widened<float>(m);
}

template <class T, class M> __device__ __forceinline__ void attend(const GeneralArgs<T, M>& a) {
  __shared__ float exchange[attention_threads / 32];
  const i64 row = blockIdx.x, i = row % a.steps, h = row / a.steps % a.heads, b = row / a.steps / a.heads;
  const i64 kv = h / (a.heads / a.k.heads);
  const T* const q = a.q + b * a.q_strides[0] + h * a.q_strides[1] + i * a.q_strides[2];      // [size]
  T* const y = a.y + b * a.y_strides[0] + h * a.y_strides[1] + i * a.y_strides[2];            // [v_size]
  float* const scores = a.scores + row * a.total;                                             // [total]
  T* const shown = a.shown ? a.shown + row * a.total : nullptr;                               // [total]
  const float lowest = __int_as_float(0xff800000);
  float top = lowest;
  for (i64 j = threadIdx.x; j < a.total; j += attention_threads) {
    const T* key = a.k.row(b, kv, j);                                                         // [size]
    float s = 0;
    for (i64 e = 0; e < a.k.width; ++e) s += widened<float>(q[e]) * widened<float>(key[e]);
    s *= a.scale;
    if (shown && a.stage == 0) shown[j] = narrowed<T>(s);
    if (a.cap > 0) s = a.cap * tanhf(s / a.cap);
    if (shown && a.stage == 1) shown[j] = narrowed<T>(s);
    s += bias_of(a, b, h, i, j);
    if (shown && a.stage == 2) shown[j] = narrowed<T>(s);
    scores[j] = s;
    top = fmaxf(top, s);
  }
  top = over_block(top, exchange, [](float x, float z) { return fmaxf(x, z); });
  float sum = 0;
  for (i64 j = threadIdx.x; j < a.total; j += attention_threads) sum += scores[j] = top == lowest ? 0.f : expf(scores[j] - top);
  sum = over_block(sum, exchange, [](float x, float z) { return x + z; });
  for (i64 j = threadIdx.x; j < a.total; j += attention_threads) {
    const float w = top == lowest ? 0.f : scores[j] / sum;
    scores[j] = w;
    if (shown && a.stage == 3) shown[j] = narrowed<T>(w);
  }
  __syncthreads();
  for (i64 e = threadIdx.x; e < a.v.width; e += attention_threads) {
    float x = 0;
    for (i64 j = 0; j < a.total; ++j)
      if (scores[j] != 0) x += scores[j] * widened<float>(a.v.row(b, kv, j)[e]);              // what is hidden does not count
    y[e] = narrowed<T>(x);
  }
}

/// Copies the rows of the cache and the fresh rows to one dense tensor. A thread an element.
template <class T> __device__ __forceinline__ void join_cache(const JoinArgs<T>& a) {
  const u32 element = blockIdx.x * blockDim.x + threadIdx.x;
  if (element >= a.count) return;
  const i64 e = element % a.rows.width, row = element / a.rows.width;
  const i64 j = row % a.total, h = row / a.total % a.rows.heads, b = row / a.total / a.rows.heads;
  a.present[element] = a.rows.row(b, h, j)[e];
}
