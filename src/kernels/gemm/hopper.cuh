// Matrix products with an epilogue on Hopper, as gemm/gemm.cuh has them:
//
//   y[batch, m, n] = Epilogue(sum over k of a[batch, m, k] · b[batch, k, n], operands at [batch, m, n])
//
// One warp issues the copies of a ring of stages, one or two groups of four warps multiply them. Each stage has two barriers:
// full (its bytes have arrived), empty (all groups are done with it). Where Persistent, a block goes over several tiles, and the
// copies of the next begin while the epilogue of this one runs.
#pragma once

#include "gemm/hopper_tile.cuh"
#include "gemm/raster.cuh"
#include "gemm/tile_loop.cuh"
#include "kernels/gemm/hopper.h"
#include "kernels/pointwise/epilogue.h"
#include "pointwise/walk.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Launch: (tiles of all batches, or as many as run at once where Persistent; splits) blocks of Tile::block_threads;
/// Tile::shared_bytes of dynamic shared memory.
template <class Tile, bool Split, bool Persistent, int BatchRank, class Epilogue>
__device__ __forceinline__ void hopper_block(const WithEpilogue<BatchedHopperArgs<BatchRank>, Epilogue>& args) {
  extern __shared__ __align__(128) char shared[];
  const HopperGemmArgs& g = args.args.gemm;
  const Epilogue& epilogue = args.epilogue;
  const u32 beyond = (1024 - shared_address(shared) % 1024) % 1024, ring = shared_address(shared) + beyond;
  const bool copies = threadIdx.x >= Tile::threads;
  if (threadIdx.x == 0) Tile::initialize(ring);
  if (threadIdx.x == Tile::threads) ptx::prefetch_tensormap(&g.a), ptx::prefetch_tensormap(&g.b);
  __syncthreads();
  if (copies && threadIdx.x % 32 != 0) return;

  const u32 k_begin = Split ? blockIdx.y * g.split_k : 0;
  const int k_left = static_cast<int>(Split && g.k - k_begin > g.split_k ? g.split_k : g.k - k_begin);
  const int k_tiles = (k_left + Tile::tile_k - 1) / Tile::tile_k;
  int stage = 0;
  u32 phase = 0;
#pragma unroll 1
  for (u32 at = blockIdx.x; at < g.tiles; at += gridDim.x) {
    const TilePlace place(at, g.tiles_m, g.tiles_n);
    const u32 row = place.row * Tile::tile_m, column = place.column * Tile::tile_n;
    if (copies) {
      i64 matrix[2];
      args.args.batches.template locate<1>(place.batch, matrix);
      Tile::copy(ring, g.a, g.b, row, column, k_begin, matrix, k_tiles, stage, phase);
    } else {
      Tile sums;                                                                                  // (TileM, TileN)
      sums.multiply(ring, k_tiles, stage, phase);
      const int rows = static_cast<int>(g.m - row), columns = static_cast<int>(g.n - column);     // inside of the output
      const auto start = epilogue.start(place.batch);
      char* const exchange = shared + beyond + Tile::exchanges;
      if constexpr (Epilogue::width == 8) {
        sums.finish(exchange, epilogue, start, row, column, rows, columns);
      } else {
        finish_tile<Split>(sums, exchange, rows, columns, static_cast<float*>(g.partial), g.arrived,
                           [&](int r, int c, const float(&v)[4]) {
                             epilogue.apply(start, row + r, column + c, static_cast<u32>(columns - c), v);
                           });
      }
    }
    if constexpr (!Persistent) break;
  }
}

#endif
