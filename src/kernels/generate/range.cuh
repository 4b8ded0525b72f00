// y[i] = start + i · delta, a thread an element: in A, as the processor computes it, and rounded once.
#pragma once

#include "common/convert.cuh"
#include "kernels/generate/range.h"

constexpr int range_threads = 256;

template <class A, class T> __device__ __forceinline__ void range(const RangeArgs<T>& a) {
  const u32 i = blockIdx.x * static_cast<u32>(range_threads) + threadIdx.x;
  if (i < a.count) a.y[i] = narrowed<T>(widened<A>(*a.start) + static_cast<A>(i) * widened<A>(*a.delta));
}
