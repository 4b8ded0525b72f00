// Matrix products of doubles and of integers of 32 and 64 bits, whose sums are of their own type, with an epilogue, over batches:
//
//   y[batch, m, n] = Epilogue(sum over k of a[batch, m, k] · b[batch, k, n], operands at [batch, m, n])
//
// A block computes a tile of 64 x 64. It multiplies 16 steps of K in shared memory while its threads hold the next 16 in
// registers. A thread has 4 x 4 sums, which it adds up in the order of K: integers wrap, doubles are the same from run to run.
//
// Launch: a block of 256 threads for each tile of all batches.
#pragma once

#include "gemm/raster.cuh"
#include "kernels/gemm/gemm.h"
#include "pointwise/epilogue.cuh"

constexpr int wide_tile = 64, wide_k = 16, wide_threads = 256;

/// The type that sums of T are added up in: one that wraps.
template <class T> struct Wrapping { using Type = T; };
template <> struct Wrapping<i32> { using Type = u32; };
template <> struct Wrapping<i64> { using Type = u64; };

/// Copies an operand's lines by way of registers. KMajor: its elements along K lie side by side, and so threads read them.
template <class T, bool KMajor> struct WideOperand {
  static constexpr int each = wide_tile * wide_k / wide_threads;
  const T* begin;                                                         // (lines, K)
  i64 line_step, k_step;
  u32 lines;                                                              // inside of the operand
  T held[each];

  static __device__ __forceinline__ u32 line(int i) {
    const u32 at = i * wide_threads + threadIdx.x;
    return KMajor ? at / wide_k : at % wide_tile;
  }
  static __device__ __forceinline__ u32 step(int i) {
    const u32 at = i * wide_threads + threadIdx.x;
    return KMajor ? at % wide_k : at / wide_tile;
  }
  /// From step `k` of `all` on; zeros outside.
  __device__ __forceinline__ void load(u32 k, u32 all) {
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const bool inside = line(i) < lines && k + step(i) < all;
      held[i] = inside ? begin[line(i) * line_step + (k + step(i)) * k_step] : T(0);
    }
  }
  __device__ __forceinline__ void store(T (&to)[wide_k][wide_tile + 1]) const {
#pragma unroll
    for (int i = 0; i < each; ++i) to[step(i)][line(i)] = held[i];
  }
};

template <bool AKMajor, bool BKMajor, class T, int BatchRank, class Epilogue>
__device__ __forceinline__ void wide_block(const WithEpilogue<BatchedGemmArgs<T, T, T, BatchRank>, Epilogue>& args) {
  __shared__ T a_tile[wide_k][wide_tile + 1], b_tile[wide_k][wide_tile + 1];       // (steps of K, lines)
  const GemmArgs<T, T, T>& g = args.args.gemm;
  const TilePlace place(blockIdx.x, g.tiles_m, g.tiles_n);
  const u32 row = place.row * wide_tile, column = place.column * wide_tile;
  i64 begin[2];
  args.args.batches.template locate<1>(place.batch, begin);
  WideOperand<T, AKMajor> a{g.a + begin[0] + row * g.a_row, g.a_row, g.a_k, g.m - row};
  WideOperand<T, BKMajor> b{g.b + begin[1] + column * g.b_column, g.b_column, g.b_k, g.n - column};

  const u32 first_row = threadIdx.x / 16 * 4, first_column = threadIdx.x % 16 * 4;  // of the thread's sums
  using Sum = typename Wrapping<T>::Type;
  Sum sums[4][4] = {};
  a.load(0, g.k), b.load(0, g.k);
  for (u32 k = 0; k < g.k; k += wide_k) {
    __syncthreads();
    a.store(a_tile), b.store(b_tile);
    __syncthreads();
    a.load(k + wide_k, g.k), b.load(k + wide_k, g.k);
#pragma unroll
    for (int step = 0; step < wide_k; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          sums[i][j] += static_cast<Sum>(a_tile[step][first_row + i]) * static_cast<Sum>(b_tile[step][first_column + j]);
  }

  const auto start = args.epilogue.start(place.batch);
  if (column + first_column >= g.n) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (row + first_row + i >= g.m) break;
    const T wrapped[4] = {static_cast<T>(sums[i][0]), static_cast<T>(sums[i][1]), static_cast<T>(sums[i][2]), static_cast<T>(sums[i][3])};
    args.epilogue.apply(start, row + first_row + i, column + first_column, g.n - column - first_column, wrapped);
  }
}
