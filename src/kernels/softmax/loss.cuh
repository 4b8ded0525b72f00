// The losses of samples by their labels: scores [outer, classes, inner], labels [outer, inner], weights [classes] or none.
//
//   loss = -weight[label] * p[label]      p: the scores themselves, or (Softmax) the logarithm of their softmax over the classes
//
// A sample that is ignored, or whose label is no class (which the processor refuses), has no loss and counts in no mean. A thread
// a sample; one block adds them up in a fixed order.
#pragma once

#include "common/convert.cuh"

constexpr int loss_threads = 256;

template <bool Softmax, class T, class I>
__device__ __forceinline__ void losses(const T* x, const I* labels, const T* weights, T* logarithms, T* each, float* loss,
                                       float* weight, u32 samples, i64 classes, i64 inner, bool ignores, i64 ignored) {
  const u32 sample = blockIdx.x * loss_threads + threadIdx.x;
  if (sample >= samples) return;
  const i64 at = sample / inner * classes * inner + sample % inner;
  float shift = 0;
  if (Softmax) {
    float top = __int_as_float(0xff800000), sum = 0;
    for (i64 c = 0; c < classes; ++c) top = fmaxf(top, widened<float>(x[at + c * inner]));
    for (i64 c = 0; c < classes; ++c) sum += expf(widened<float>(x[at + c * inner]) - top);
    shift = top + logf(sum);
    if (logarithms)
      for (i64 c = 0; c < classes; ++c) logarithms[at + c * inner] = narrowed<T>(widened<float>(x[at + c * inner]) - shift);
  }
  const i64 label = static_cast<i64>(labels[sample]);
  float l = 0, w = 0;
  if (!(ignores && label == ignored) && label >= 0 && label < classes) {
    w = weights ? widened<float>(weights[label]) : 1.f;
    l = -w * (widened<float>(x[at + label * inner]) - shift);
  }
  if (each) each[sample] = narrowed<T>(l);
  loss[sample] = l;
  weight[sample] = w;
}

template <class T>
__device__ __forceinline__ void add_losses(const float* loss, const float* weight, T* y, u32 samples, bool mean) {
  __shared__ double exchange[2][loss_threads];
  double sums[2] = {};
  for (u32 i = threadIdx.x; i < samples; i += loss_threads) sums[0] += loss[i], sums[1] += weight[i];
  exchange[0][threadIdx.x] = sums[0], exchange[1][threadIdx.x] = sums[1];
  for (int half = loss_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      for (auto& e : exchange) e[threadIdx.x] += e[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *y = narrowed<T>(static_cast<float>(mean ? exchange[0][0] / exchange[1][0] : exchange[0][0]));
}
