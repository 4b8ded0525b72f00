// The argument of gemm/hopper.cuh.
#pragma once

#include "kernels/pointwise/walk.h"

namespace smelt::kernels {

/// CUtensorMap: where a matrix lies and how its boxes are copied. The driver encodes it (cuTensorMapEncodeTiled).
struct alignas(128) TensorMap {
  u64 words[16];
};
static_assert(sizeof(TensorMap) == 128);

struct HopperGemmArgs {
  TensorMap a;                           // [matrices, M, K], or [matrices, K, M] where its lines run along M
  TensorMap b;                           // [matrices, N, K], or [matrices, K, N]
  void* partial;                         // (tile, split, TileM, TileN) floats, where K is split
  u32* arrived;                          // (tile), 0 between launches
  u32 m, n, k;
  u32 tiles_m, tiles_n;
  u32 tiles;                             // of all batches
  u32 split_k;                           // steps of K of a split, whole tiles of them; gridDim.y splits
};
static_assert(sizeof(HopperGemmArgs) == 384);

/// `batches`: which of their maps' matrices a and b are.
template <int BatchRank> struct BatchedHopperArgs {
  HopperGemmArgs gemm;
  Walk<BatchRank, 2> batches;
};

}  // namespace smelt::kernels
