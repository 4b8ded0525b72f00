// Copies planes from a tensor whose rows are contiguous to one whose columns are. Square tiles go through shared memory, so that
// both tensors are accessed along contiguous elements.
//
// Launch: (tiles of columns, tiles of rows, planes) blocks of (32, 8) threads. The tile's rows are padded by one element, so that
// reading it by columns touches every bank once.
#pragma once

#include "kernels/movement/transpose.h"
#include "pointwise/walk.cuh"

template <class T, int Rank> __device__ __forceinline__ void transpose(const TransposeArgs<T, Rank>& a) {
  const Planes<T>& p = a.planes;
  __shared__ T tile[32][33];                                                // (32 rows, 32 columns)
  for (u32 plane = blockIdx.z; plane < a.walk.chunks; plane += gridDim.z) {
    i64 at[2];
    a.walk.template locate<1>(plane, at);
    const u32 row = blockIdx.y * 32, column = blockIdx.x * 32;
#pragma unroll
    for (u32 i = threadIdx.y; i < 32; i += 8)
      if (row + i < p.rows && column + threadIdx.x < p.columns)
        tile[i][threadIdx.x] = p.from[at[0] + (row + i) * p.from_row + column + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (u32 i = threadIdx.y; i < 32; i += 8)
      if (column + i < p.columns && row + threadIdx.x < p.rows)
        p.to[at[1] + (column + i) * p.to_column + row + threadIdx.x] = tile[threadIdx.x][i];
    __syncthreads();
  }
}
