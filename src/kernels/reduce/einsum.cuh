// Einsum: an element of y is the sum, over the summed indices, of the products of the operands' elements. A thread does one
// element, in double (integers in their own type).
//
//   y     [outer…], dense
//   x     [outer…, summed…] each, strided
#pragma once

#include "common/convert.cuh"
#include "common/divide.cuh"
#include "kernels/reduce/einsum.h"

/// at[k] += the offset in operand k of element `index` of the axes.
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

template <class A, class T, int Operands, int Outer, int Summed>
__device__ __forceinline__ void contract(const EinsumArgs<T, Operands, Outer, Summed>& a) {
  const u32 element = blockIdx.x * blockDim.x + threadIdx.x;
  if (element >= a.count) return;
  i64 base[Operands] = {};
  offsets(element, a.outer, a.outer_strides, base);
  A total = 0;
  for (u32 term = 0; term < a.terms; ++term) {
    i64 at[Operands];
#pragma unroll
    for (int k = 0; k < Operands; ++k) at[k] = base[k];
    offsets(term, a.summed, a.summed_strides, at);
    A product = 1;
#pragma unroll
    for (int k = 0; k < Operands; ++k) product *= widened<A>(a.x[k][at[k]]);
    total += product;
  }
  a.y[element] = narrowed<T>(total);
}
