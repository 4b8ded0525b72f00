// Einsum: each element of y is a sum over the summed indices of the product of its operands' elements. A thread an element, added
// up in double (integers in their own type).
#pragma once

#include "common/convert.cuh"
#include "common/divide.cuh"
#include "kernels/reduce/contraction.h"

template <int Operands, int Axes>
__device__ __forceinline__ void offsets(u32 index, const Divider (&extents)[Axes], const i64 (&strides)[Operands][Axes],
                                        i64 (&at)[Operands]) {
#pragma unroll
  for (int a = 0; a < Axes; ++a) {
    const u32 next = extents[a].quotient(index), i = index - next * extents[a].divisor;
    index = next;
#pragma unroll
    for (int k = 0; k < Operands; ++k) at[k] += i * strides[k][a];
  }
}

template <class A, class T, int Outer, int Summed, class... X>
__device__ __forceinline__ void contract(T* y, const Contraction<sizeof...(X), Outer, Summed>& c, const X*... operands) {
  constexpr int Operands = sizeof...(X);
  const T* const x[] = {operands...};
  const u32 element = blockIdx.x * blockDim.x + threadIdx.x;
  if (element >= c.count) return;
  i64 base[Operands] = {};
  offsets(element, c.outer, c.outer_strides, base);
  A total = 0;
  for (u32 term = 0; term < c.terms; ++term) {
    i64 at[Operands];
#pragma unroll
    for (int k = 0; k < Operands; ++k) at[k] = base[k];
    offsets(term, c.summed, c.summed_strides, at);
    A product = 1;
#pragma unroll
    for (int k = 0; k < Operands; ++k) product *= widened<A>(x[k][at[k]]);
    total += product;
  }
  y[element] = narrowed<T>(total);
}
