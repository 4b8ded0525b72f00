// The argument of reduce/einsum.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

/// Outer, Summed: the numbers of axes of y and of summed axes; arrays along them have the innermost axis first.
template <class T, int Operands, int Outer, int Summed> struct EinsumArgs {
  const T* x[Operands];         // [outer…, summed…] each, strided
  T* y;                         // [outer…]
  i64 outer_strides[Operands][Outer], summed_strides[Operands][Summed];     // of x; 0 along an axis that an operand lacks
  Divider outer[Outer], summed[Summed];                                     // extents
  u32 count, terms;             // elements of y; products that each sums up
};
static_assert(sizeof(EinsumArgs<float, 1, 1, 1>) == 64 && sizeof(EinsumArgs<float, 2, 3, 1>) == 144);

}  // namespace smelt::kernels
