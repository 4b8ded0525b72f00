// The argument of gemm/gemm.cuh.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

struct GemmArgs {
  const void *a, *b;
  void* partial;                         // (tile, split, TileM, TileN) sums, where K is split
  u32* arrived;                          // (tile), 0 between launches
  const i32* b_zeros;                    // (N), of b's columns, where the tile has row_sums
  i64 a_row, a_k, b_k, b_column;         // elements from one to the next
  u32 m, n, k;
  u32 tiles_m, tiles_n;
  u32 split_k;                           // steps of K of a split, whole tiles of them; gridDim.y splits
};
static_assert(sizeof(GemmArgs) == 96);

}  // namespace smelt::kernels
