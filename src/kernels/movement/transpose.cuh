// Copies planes from a tensor whose rows are contiguous to one whose columns are. Square tiles go through shared memory, so that
// both tensors are accessed along contiguous elements: Read of them at a time where rows begin at such vectors, Write where columns do.
//
// Launch: (tiles of columns, tiles of rows, planes) blocks of (32, 8) threads. A tile has 32 x 32 elements of 4 bytes or more, 64 x 64 of
// fewer. Its rows are padded, so that reading it by columns touches no bank more than twice.
#pragma once

#include "kernels/movement/transpose.h"
#include "pointwise/walk.cuh"

template <class T, int Rank, int Read, int Write> __device__ __forceinline__ void transpose(const TransposeArgs<T, Rank>& a) {
  constexpr int side = transpose_side(sizeof(T)), threads = 256;
  // A row's padding: an element of 4 bytes or more, else a word, so that vectors of a row begin at words.
  constexpr int pitch = side + (sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1);
  constexpr int of_row = side / Read, of_column = side / Write;              // vectors
  const Planes<T>& p = a.planes;
  __shared__ __align__(16) T tile[side][pitch];                             // (side rows, side columns)
  const u32 thread = threadIdx.y * 32 + threadIdx.x;
  for (u32 plane = blockIdx.z; plane < a.walk.chunks; plane += gridDim.z) {
    i64 at[2];
    a.walk.template locate<1>(plane, at);
    const u32 row = blockIdx.y * side, column = blockIdx.x * side;
    // All loads are on their way before the first is stored.
    constexpr int loads = side * of_row / threads;
    Vector<T, Read> read[loads] = {};
#pragma unroll
    for (int k = 0; k < loads; ++k) {
      const u32 i = (k * threads + thread) / of_row, j = (k * threads + thread) % of_row * Read;
      if (row + i >= p.rows || column + j >= p.columns) continue;
      const T* from = p.from + at[0] + (row + i) * p.from_row + column + j;
      if (Read == 1 || column + j + Read <= p.columns) {
        words_of(read[k]) = *reinterpret_cast<const WordsOf<Vector<T, Read>>*>(from);
      } else {
#pragma unroll
        for (int e = 0; e < Read; ++e)
          if (column + j + e < p.columns) read[k].at[e] = from[e];
      }
    }
#pragma unroll
    for (int k = 0; k < loads; ++k) {
      const u32 i = (k * threads + thread) / of_row, j = (k * threads + thread) % of_row * Read;
#pragma unroll
      for (int e = 0; e < Read; ++e) tile[i][j + e] = read[k].at[e];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < side * of_column / threads; ++k) {
      const u32 i = (k * threads + thread) / of_column, j = (k * threads + thread) % of_column * Write;  // a column, its rows
      if (column + i >= p.columns || row + j >= p.rows) continue;
      T* to = p.to + at[1] + (column + i) * p.to_column + row + j;
      Vector<T, Write> write;
#pragma unroll
      for (int e = 0; e < Write; ++e) write.at[e] = tile[j + e][i];
      if (Write == 1 || row + j + Write <= p.rows) {
        *reinterpret_cast<WordsOf<Vector<T, Write>>*>(to) = words_of(write);
      } else {
#pragma unroll
        for (int e = 0; e < Write; ++e)
          if (row + j + e < p.rows) to[e] = write.at[e];
      }
    }
    __syncthreads();
  }
}
