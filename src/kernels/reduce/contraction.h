// The axes of an Einsum.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

template <int Operands, int Outer, int Summed> struct Contraction {
  u32 count;                             // of y
  Divider outer[Outer], summed[Summed];  // extents, innermost first
  u32 terms;                             // the summed extents' product
  i64 outer_strides[Operands][Outer], summed_strides[Operands][Summed];
};

/// Bytes of a Contraction, for numbers that are known at run time only.
SMELT_SHARED constexpr u64 contraction_bytes(int operands, int outer, int summed) {
  const u64 axes = static_cast<u64>(outer) + static_cast<u64>(summed);
  return (8 + axes * sizeof(Divider) + 7) / 8 * 8 + 8 * static_cast<u64>(operands) * axes;
}
static_assert(sizeof(Contraction<1, 1, 1>) == contraction_bytes(1, 1, 1) &&
              sizeof(Contraction<2, 3, 2>) == contraction_bytes(2, 3, 2) &&
              sizeof(Contraction<3, 2, 2>) == contraction_bytes(3, 2, 2));

}  // namespace smelt::kernels
