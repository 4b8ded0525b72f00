// Rows of elements moved to where a map says: y[to + c] = x[from + c], c of a row's width.
//
//   x, y      any tensors of one element type, of which only the size matters
//   Map       one of movement/rows.h, or another with such an operator()
//
// A thread moves Vec elements of one row. Where an index lies outside of its axis, nothing is read and the row is filled.
#pragma once

#include "kernels/movement/rows.h"
#include "pointwise/walk.cuh"

template <int Vec, class T, class Map> __device__ __forceinline__ void move_rows(const RowMoveArgs<T, Map>& a, T fill) {
  const MovedRows<T>& rows = a.rows;
  const u32 chunk = blockIdx.x * blockDim.x + threadIdx.x;
  if (chunk >= rows.chunks) return;
  const u32 row = rows.per_row.quotient(chunk), c = (chunk - row * rows.per_row.divisor) * Vec;
  const From2 at = a.map(row);
  if (at.to < 0) return;
  Vector<T, Vec> v;                                                         // (Vec) of a row
  if (at.from >= 0) {
    load<1>(v, rows.x, at.from + c, 1, rows.width - c);
  } else {
#pragma unroll
    for (int e = 0; e < Vec; ++e) v.at[e] = fill;
  }
  store<1>(rows.y, at.to + c, 1, rows.width - c, v);
}

template <int Vec, class T, class Map> __device__ __forceinline__ void move_rows(const RowMoveArgs<T, Map>& a) {
  move_rows<Vec>(a, static_cast<T>(a.rows.fill));
}

/// What fills rows is computed in the run.
template <int Vec, class T, class Map> __device__ __forceinline__ void move_filled_rows(const FilledMoveArgs<T, Map>& a) {
  move_rows<Vec>(a.move, *a.fill);
}
