// What is done to one line of elements along an axis, by one thread: x, y [outer, extent, inner], dense. Lines that lie beside
// each other are read together; few and long lines are better off elsewhere.
#pragma once

#include "common/convert.cuh"
#include "kernels/reduce/line_shape.h"

/// 1 at the first of the largest elements (a NaN is larger than any), 0 elsewhere.
template <class T> __device__ __forceinline__ void hard_max(const T* x, T* y, const Lines& l) {
  const u32 line = blockIdx.x * blockDim.x + threadIdx.x;
  if (line >= l.count) return;
  const i64 at = l.begin(line);
  i64 best = 0;
  double top = widened<double>(x[at]);
  for (i64 k = 1; k < l.extent; ++k) {
    const double v = widened<double>(x[at + k * l.inner]);
    if (v > top || (v != v && top == top)) top = v, best = k;
  }
  for (i64 k = 0; k < l.extent; ++k) y[at + k * l.inner] = narrowed<T>(k == best ? 1.f : 0.f);
}

/// Divided by the sum of magnitudes, or the root of the sum of squares; zeros where that is 0.
template <int P, class T> __device__ __forceinline__ void divide_by_norm(const T* x, T* y, const Lines& l) {
  const u32 line = blockIdx.x * blockDim.x + threadIdx.x;
  if (line >= l.count) return;
  const i64 at = l.begin(line);
  double sum = 0;
  for (i64 k = 0; k < l.extent; ++k) {
    const double v = widened<double>(x[at + k * l.inner]);
    sum += P == 1 ? fabs(v) : v * v;
  }
  const double norm = P == 1 ? sum : sqrt(sum);
  for (i64 k = 0; k < l.extent; ++k)
    y[at + k * l.inner] = narrowed<T>(norm == 0 ? 0.0 : widened<double>(x[at + k * l.inner]) / norm);
}

/// x / (bias + alpha / size * sum of squares of the `size` channels around)^beta; a thread an element.
template <class T>
__device__ __forceinline__ void respond(const T* x, T* y, const Lines& l, i64 size, float alpha, float beta, float bias) {
  const u32 element = blockIdx.x * blockDim.x + threadIdx.x;
  if (element >= l.count) return;
  const i64 k = element / l.inner % l.extent, first = k - (size - 1) / 2 > 0 ? k - (size - 1) / 2 : 0;
  const i64 last = k + size / 2 < l.extent ? k + size / 2 : l.extent - 1;
  float sum = 0;
  for (i64 j = first; j <= last; ++j) {
    const float v = widened<float>(x[element + (j - k) * l.inner]);
    sum += v * v;
  }
  y[element] = narrowed<T>(widened<float>(x[element]) / powf(bias + alpha / size * sum, beta));
}
