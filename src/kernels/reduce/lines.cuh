// One thread does a line of elements along an axis of dense tensors. Neighbouring threads read neighbouring lines, so this suits
// many lines, not few long ones.
//
//   x, y     [outer, extent, inner]
#pragma once

#include "common/convert.cuh"
#include "kernels/reduce/lines.h"

/// 1 at the first of the largest elements (a NaN is larger than any), 0 elsewhere.
template <class T> __device__ __forceinline__ void hard_max(const LineArgs<T>& l) {
  const u32 line = blockIdx.x * blockDim.x + threadIdx.x;
  if (line >= l.count) return;
  const i64 at = l.begin(line);
  i64 best = 0;
  double top = widened<double>(l.x[at]);
  for (i64 k = 1; k < l.extent; ++k) {
    const double v = widened<double>(l.x[at + k * l.inner]);
    if (v > top || (v != v && top == top)) top = v, best = k;
  }
  for (i64 k = 0; k < l.extent; ++k) l.y[at + k * l.inner] = narrowed<T>(k == best ? 1.f : 0.f);
}

/// y = x / norm; the norm is the sum of magnitudes (P 1) or the root of the sum of squares. Zeros where it is 0.
template <int P, class T> __device__ __forceinline__ void divide_by_norm(const LineArgs<T>& l) {
  const u32 line = blockIdx.x * blockDim.x + threadIdx.x;
  if (line >= l.count) return;
  const i64 at = l.begin(line);
  double sum = 0;
  for (i64 k = 0; k < l.extent; ++k) {
    const double v = widened<double>(l.x[at + k * l.inner]);
    sum += P == 1 ? fabs(v) : v * v;
  }
  const double norm = P == 1 ? sum : sqrt(sum);
  for (i64 k = 0; k < l.extent; ++k)
    l.y[at + k * l.inner] = narrowed<T>(norm == 0 ? 0.0 : widened<double>(l.x[at + k * l.inner]) / norm);
}

/// y = x / (bias + alpha / size * sum of squares of the `size` channels around)^beta; a thread an element.
template <class T> __device__ __forceinline__ void respond(const ResponseArgs<T>& a) {
  const LineArgs<T>& l = a.lines;
  const auto& [size, alpha, beta, bias] = a.response;
  const u32 element = blockIdx.x * blockDim.x + threadIdx.x;
  if (element >= l.count) return;
  const i64 k = element / l.inner % l.extent, first = k - (size - 1) / 2 > 0 ? k - (size - 1) / 2 : 0;
  const i64 last = k + size / 2 < l.extent ? k + size / 2 : l.extent - 1;
  float sum = 0;
  for (i64 j = first; j <= last; ++j) {
    const float v = widened<float>(l.x[element + (j - k) * l.inner]);
    sum += v * v;
  }
  l.y[element] = narrowed<T>(widened<float>(l.x[element]) / powf(bias + alpha / size * sum, beta));
}
