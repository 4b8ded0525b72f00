// Matrix products with an epilogue, over batches:
//
//   y[batch, m, n] = Epilogue(sum over k of a[batch, m, k] · b[batch, k, n], operands at [batch, m, n])
//
// One block a tile of TileM x TileN, or a share of its K where K is split: Stages tiles along K are on their way into a ring in
// shared memory while one multiplies (NVIDIA's CUTLASS calls it a multistage pipeline). Any M, N and K; operands at any strides
// that their Tile's copies take.
//
// Split sums are written to a workspace and added by the block that comes last to its tile, in the order of the splits, whichever
// comes last: the same inputs give the same bits.
#pragma once

#include "gemm/float_tile.cuh"
#include "gemm/tensor_tile.cuh"
#include "gemm/tile_loop.cuh"
#include "pointwise/walk.cuh"

template <class Tile, int BatchRank> struct GemmArgument {
  const typename Tile::A* a;
  const typename Tile::B* b;
  typename Tile::Sum* partial;           // (tile, split, TileM, TileN), where K is split
  u32* arrived;                          // (tile), 0 between launches
  const i32* b_zeros;                    // (N), of b's columns, where the tile has row_sums
  i64 a_row, a_k, b_k, b_column;         // elements from one to the next
  u32 m, n, k;
  u32 tiles_m, tiles_n;
  u32 split_k;                           // steps of K of a split, whole tiles of them; gridDim.y splits
  Walk<BatchRank, 2> batches;            // where a's and b's begin
};

/// Rows of tiles that neighbouring blocks share b's columns over, so that both operands' parts stay in the L2 cache.
constexpr u32 raster_rows = 8;

template <class Tile, bool Split, int BatchRank, class Epilogue>
__device__ __forceinline__ void gemm_block(const GemmArgument<Tile, BatchRank>& g, const Epilogue& epilogue, char* shared) {
  const u32 tiles = g.tiles_m * g.tiles_n, batch = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const u32 group = tile / (raster_rows * g.tiles_n), first = group * raster_rows;
  const u32 high = g.tiles_m - first < raster_rows ? g.tiles_m - first : raster_rows, rest = tile % (raster_rows * g.tiles_n);
  const u32 row = (first + rest % high) * Tile::tile_m, column = rest / high * Tile::tile_n;
  const u32 k_begin = Split ? blockIdx.y * g.split_k : 0;
  const int k_left = static_cast<int>(Split && g.k - k_begin > g.split_k ? g.split_k : g.k - k_begin);
  const int k_tiles = (k_left + Tile::tile_k - 1) / Tile::tile_k;

  i64 begin[2];
  g.batches.template locate<1>(batch, begin);
  typename Tile::CopyA copy_a(g.a + begin[0] + row * g.a_row + k_begin * g.a_k, Tile::CopyA::k_major ? g.a_row : g.a_k,
                              Tile::CopyA::k_major ? g.a_k : g.a_row, g.m - row);
  typename Tile::CopyB copy_b(g.b + begin[1] + column * g.b_column + k_begin * g.b_k, Tile::CopyB::k_major ? g.b_column : g.b_k,
                              Tile::CopyB::k_major ? g.b_k : g.b_column, g.n - column);
  Tile sums;
  multiply_tiles(sums, shared, k_tiles, [&](u32 a, u32 b, int t) {
    copy_a(a, k_left - t * Tile::tile_k);
    copy_b(b, k_left - t * Tile::tile_k);
  });
  if constexpr (Tile::row_sums) sums.take_zeros(g.b_zeros + column, static_cast<int>(g.n - column));

  const int rows = static_cast<int>(g.m - row), columns = static_cast<int>(g.n - column);
  const auto start = epilogue.start(batch);
  finish_tile<Split>(sums, shared, rows, columns, g.partial, g.arrived, [&](int r, int c, const typename Tile::Sum(&v)[4]) {
    epilogue.apply(start, row + r, column + c, static_cast<u32>(columns - c), v);
  });
}
