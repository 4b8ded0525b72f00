// The argument of movement/transpose.cuh.
#pragma once

#include "kernels/pointwise/walk.h"

namespace smelt::kernels {

/// The rows and columns of a tile of elements of so many bytes.
SMELT_SHARED constexpr int transpose_side(int bytes) { return bytes < 4 ? 64 : 32; }

/// T: an unsigned integer of an element's size; void on the host.
template <class T> struct Planes {
  const T* from;                // [planes, rows, columns], the elements of a row side by side
  T* to;                        // [planes, columns, rows], the elements of a column side by side
  i64 from_row;                 // elements from one row to the next in `from`
  i64 to_column;                // elements from one column to the next in `to`
  u32 rows, columns;
};
static_assert(sizeof(Planes<void>) == 40);

template <class T, int Rank> struct TransposeArgs {
  Planes<T> planes;
  Walk<Rank, 2> walk;           // of the planes' first elements in `from` and `to`
};

/// Bytes of a TransposeArgs, for a rank that the host knows at run time only.
SMELT_SHARED constexpr u64 transpose_bytes(int rank) { return sizeof(Planes<void>) + walk_bytes(rank, 2); }
static_assert(sizeof(TransposeArgs<void, 1>) == transpose_bytes(1) && sizeof(TransposeArgs<void, 3>) == transpose_bytes(3));

}  // namespace smelt::kernels
