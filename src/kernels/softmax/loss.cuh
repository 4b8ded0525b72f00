// The losses of samples by their labels.
//
//   loss = -weight[label] * p[label]      p: the scores, or (Softmax) the logarithm of their softmax over the classes
//
//   x (the scores)     [outer, classes, inner]
//   labels             [outer, inner]
//   weights            [classes], or none
//
// A sample has loss 0 and weight 0 in the mean where its label is ignored or is no class; the CPU's kernel refuses the latter. A
// thread does a sample; then one block adds up all losses in a fixed order.
#pragma once

#include "common/convert.cuh"
#include "kernels/softmax/loss.h"

constexpr int loss_threads = 256;

template <bool Softmax, class T, class I> __device__ __forceinline__ void losses(const LossArgs<T, I>& a) {
  const u32 sample = blockIdx.x * loss_threads + threadIdx.x;
  if (sample >= a.samples) return;
  const i64 classes = a.classes, inner = a.inner;
  const T* const x = a.x;
  const i64 at = sample / inner * classes * inner + sample % inner;
  float shift = 0;
  if (Softmax) {
    float top = __int_as_float(0xff800000), sum = 0;
    for (i64 c = 0; c < classes; ++c) top = fmaxf(top, widened<float>(x[at + c * inner]));
    for (i64 c = 0; c < classes; ++c) sum += expf(widened<float>(x[at + c * inner]) - top);
    shift = top + logf(sum);
    if (a.logarithms)
      for (i64 c = 0; c < classes; ++c) a.logarithms[at + c * inner] = narrowed<T>(widened<float>(x[at + c * inner]) - shift);
  }
  const i64 label = static_cast<i64>(a.labels[sample]);
  float l = 0, w = 0;
  if (!(a.ignores && label == a.ignored) && label >= 0 && label < classes) {
    w = a.weights ? widened<float>(a.weights[label]) : 1.f;
    l = -w * (widened<float>(x[at + label * inner]) - shift);
  }
  if (a.each) a.each[sample] = narrowed<T>(l);
  a.loss[sample] = l;
  a.weight[sample] = w;
}

template <class T> __device__ __forceinline__ void add_losses(const LossSumArgs<T>& a) {
  __shared__ double exchange[2][loss_threads];
  double sums[2] = {};
  for (u32 i = threadIdx.x; i < a.samples; i += loss_threads) sums[0] += a.loss[i], sums[1] += a.weight[i];
  exchange[0][threadIdx.x] = sums[0], exchange[1][threadIdx.x] = sums[1];
  for (int half = loss_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      for (auto& e : exchange) e[threadIdx.x] += e[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *a.y = narrowed<T>(static_cast<float>(a.mean ? exchange[0][0] / exchange[1][0] : exchange[0][0]));
}
