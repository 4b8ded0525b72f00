// The argument of gemm/gemm.cuh.
#pragma once

#include "kernels/pointwise/walk.h"

namespace smelt::kernels {

/// Of 8-bit integers, whose zero points a tile takes from its sums: bits.
constexpr u32 zeros_of_a = 1, zeros_of_b = 2;

/// A, B: the elements' types, Sum: the sums'; void on the host.
template <class A, class B, class Sum> struct GemmArgs {
  const A* a;                            // [batches…, M, K]
  const B* b;                            // [batches…, K, N]
  Sum* partial;                          // (tile, split, TileM, TileN), where K is split; streamed: (block, 2, TileM, TileN)
  u32* arrived;                          // (tile), 0 between launches
  const i32* b_zeros;                    // [N], zero points of b's columns, where the tile has zeros_of_b
  const B* b_zero;                       // or one for all of them; else null
  const A* a_zero;                       // a's zero point, where the tile has zeros_of_a; null: it is a_zero_known
  i64 a_row, a_k, b_k, b_column;         // elements from one to the next
  u32 m, n, k;
  u32 tiles_m, tiles_n;
  i32 a_zero_known;
  u32 split_k;                           // steps of K of a split, whole tiles of them; gridDim.y splits. Streamed: tiles of a block each
};
static_assert(sizeof(GemmArgs<void, void, void>) == 120);

template <class A, class B, class Sum, int BatchRank> struct BatchedGemmArgs {
  GemmArgs<A, B, Sum> gemm;
  Walk<BatchRank, 2> batches;            // where a's and b's matrices begin
};
static_assert(sizeof(BatchedGemmArgs<void, void, void, 2>) == 120 + walk_bytes(2, 2));

}  // namespace smelt::kernels
