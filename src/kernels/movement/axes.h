// Where each index of an axis of y lies in x.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

template <int Rank> struct Axes {
  i64 from[Rank], to[Rank];  // strides of x and y, innermost first
  i64 table[Rank];           // where the axis's offsets begin in the tables; -1: the stride says it
  Divider extents[Rank];     // innermost first
};

/// Bytes of Axes, for a rank that is known at run time only.
SMELT_SHARED constexpr u64 axes_bytes(int rank) { return (static_cast<u64>(rank) * (24 + sizeof(Divider)) + 7) / 8 * 8; }
static_assert(sizeof(Axes<1>) == axes_bytes(1) && sizeof(Axes<2>) == axes_bytes(2) && sizeof(Axes<5>) == axes_bytes(5));

}  // namespace smelt::kernels
