// ONNX's Attention in every form that it has: a cache before the keys and values, masks of any type and shape, windows, lengths
// that the device finds, soft capping, the scores as an output. A block has a query, whose scores lie in a workspace.
//
//   q [batch, heads, steps, size], k and v [batch, kv_heads, past + fresh, size and v_size], by strides (past: dense)
//   score = cap(scale * q·k) + bias;   y = softmax(score) v, zeros where all scores are minus infinity
#pragma once

#include "common/convert.cuh"
#include "common/warp.cuh"
#include "kernels/attention/general.h"

constexpr int attention_threads = 128;

/// The fold of all threads' values; every thread gets it.
template <class Fold> __device__ __forceinline__ float over_block(float v, float* exchange, const Fold& fold) {
  v = fold_lanes(v, fold);
  __syncthreads();                       // what was exchanged before has been read
  if (threadIdx.x % 32 == 0) exchange[threadIdx.x / 32] = v;
  __syncthreads();
  v = exchange[0];
  for (int w = 1; w < attention_threads / 32; ++w) v = fold(v, exchange[w]);
  return v;
}

template <class T> __device__ __forceinline__ const T* row_of(const T* fresh, const T* past, const i64 (&strides)[3], i64 width,
                                                              const GeneralAttention& a, i64 b, i64 h, i64 j) {
  return j < a.past ? past + ((b * a.kv_heads + h) * a.past + j) * width
                    : fresh + b * strides[0] + h * strides[1] + (j - a.past) * strides[2];
}

/// What is added to the score of query i and key j.
template <class M>
__device__ __forceinline__ float bias_of(const M* mask, const i64* lengths, const GeneralAttention& a, i64 b, i64 h, i64 i,
                                         i64 j) {
  const float hidden = __int_as_float(0xff800000);
  i64 offset = a.past;
  if (lengths) {
    if (j >= lengths[b]) return hidden;
    offset = lengths[b] - a.steps;
  }
  const i64 position = i + offset;
  if ((a.causal && j > position) || (a.left >= 0 && j < position - a.left) || (a.right >= 0 && j > position + a.right))
    return hidden;
  if (!mask) return 0;
  if (j >= a.columns) return hidden;
  const M m = mask[b * a.mask[0] + h * a.mask[1] + i * a.mask[2] + j * a.mask[3]];
  if constexpr (is_same_type<M, bool>) return m ? 0.f : hidden;
  else return widened<float>(m);
}

template <class T, class M>
__device__ __forceinline__ void attend(const T* q, const T* k, const T* v, const M* mask, const T* past_k, const T* past_v,
                                       const i64* lengths, T* y, T* shown, float* scores, const GeneralAttention& a) {
  __shared__ float exchange[attention_threads / 32];
  const i64 row = blockIdx.x, i = row % a.steps, h = row / a.steps % a.heads, b = row / a.steps / a.heads;
  const i64 kv = h / (a.heads / a.kv_heads);
  q += b * a.q[0] + h * a.q[1] + i * a.q[2];                                        // [size]
  y += b * a.y[0] + h * a.y[1] + i * a.y[2];                                        // [v_size]
  scores += row * a.total;                                                          // [past + fresh]
  if (shown) shown += row * a.total;                                                // [past + fresh]
  const float lowest = __int_as_float(0xff800000);
  float top = lowest;
  for (i64 j = threadIdx.x; j < a.total; j += attention_threads) {
    const T* key = row_of(k, past_k, a.k, a.size, a, b, kv, j);                     // [size]
    float s = 0;
    for (i64 e = 0; e < a.size; ++e) s += widened<float>(q[e]) * widened<float>(key[e]);
    s *= a.scale;
    if (shown && a.stage == 0) shown[j] = narrowed<T>(s);
    if (a.cap > 0) s = a.cap * tanhf(s / a.cap);
    if (shown && a.stage == 1) shown[j] = narrowed<T>(s);
    s += bias_of(mask, lengths, a, b, h, i, j);
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
  for (i64 e = threadIdx.x; e < a.v_size; e += attention_threads) {
    float x = 0;
    for (i64 j = 0; j < a.total; ++j)
      if (scores[j] != 0)
        x += scores[j] * widened<float>(row_of(v, past_v, a.v, a.v_size, a, b, kv, j)[e]);   // what is hidden does not count
    y[e] = narrowed<T>(x);
  }
}

/// present [batch, kv_heads, past + fresh, width], dense: a thread an element.
template <class T>
__device__ __forceinline__ void join_cache(const T* fresh, const T* past, T* present, const GeneralAttention& a, bool values,
                                           u32 count) {
  const u32 element = blockIdx.x * blockDim.x + threadIdx.x;
  if (element >= count) return;
  const i64 width = values ? a.v_size : a.size, e = element % width, row = element / width;
  const i64 j = row % a.total, h = row / a.total % a.kv_heads, b = row / a.total / a.kv_heads;
  present[element] = row_of(fresh, past, values ? a.v : a.k, width, a, b, h, j)[e];
}
