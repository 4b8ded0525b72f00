// y[i] = start + i · delta, a thread an element: in A, as the processor computes it, and rounded once.
#pragma once

#include "common/convert.cuh"

constexpr int range_threads = 256;

template <class A, class T> __device__ __forceinline__ void range(const T* start, const T* delta, T* y, u32 count) {
  const u32 i = blockIdx.x * static_cast<u32>(range_threads) + threadIdx.x;
  if (i < count) y[i] = narrowed<T>(widened<A>(*start) + static_cast<A>(i) * widened<A>(*delta));
}
