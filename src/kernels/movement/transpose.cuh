// Copies a plane from a tensor whose rows are contiguous to one whose columns are, by square tiles through shared memory, so that
// both are accessed along contiguous elements.
//
//   from    (planes, rows, columns), the elements of a row side by side
//   to      (planes, columns, rows), the elements of a column side by side
//
// Launch: (tiles of columns, tiles of rows, planes) blocks of (32, 8) threads. The tile's rows are padded by one element, so that
// reading it by columns touches every bank once.
#pragma once

#include "pointwise/walk.cuh"

struct Plane {
  u32 rows, columns;
  i64 from_row;      // elements from one row to the next in `from`; columns are side by side
  i64 to_column;     // elements from one column to the next in `to`; rows are side by side
};

template <class T, int Rank>
__device__ __forceinline__ void transpose(const T* from, T* to, const Walk<Rank, 2>& planes, const Plane& p) {
  __shared__ T tile[32][33];
  for (u32 plane = blockIdx.z; plane < planes.chunks; plane += gridDim.z) {
    i64 at[2];
    planes.template locate<1>(plane, at);
    const u32 row = blockIdx.y * 32, column = blockIdx.x * 32;
#pragma unroll
    for (u32 i = threadIdx.y; i < 32; i += 8)
      if (row + i < p.rows && column + threadIdx.x < p.columns)
        tile[i][threadIdx.x] = from[at[0] + (row + i) * p.from_row + column + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (u32 i = threadIdx.y; i < 32; i += 8)
      if (column + i < p.columns && row + threadIdx.x < p.rows)
        to[at[1] + (column + i) * p.to_column + row + threadIdx.x] = tile[threadIdx.x][i];
    __syncthreads();
  }
}
