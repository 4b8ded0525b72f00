// Matrix products with an epilogue, over batches:
//
//   y[batch, m, n] = Epilogue(sum over k of a[batch, m, k] · b[batch, k, n], operands at [batch, m, n])
//
// A block computes one tile of TileM x TileN, or where K is split, its share of the tile's K. It multiplies one stage of the ring
// in shared memory while the copies of the next stages are in flight (CUTLASS: a multistage pipeline). M, N and K are arbitrary;
// operands have any strides that their Tile's copies take.
//
// Where K is split, blocks write their sums to a workspace. The last block to arrive at a tile adds them in the order of the
// splits: the same inputs give the same bits.
//
// Streamed (stream-K), the tiles of all full rounds of blocks have a block each. Those of the last round are dealt out to as many
// blocks as run at once by their steps of K, so that all of these have about as many; a tile's parts are added as splits are.
#pragma once

#include "gemm/float_tile.cuh"
#include "gemm/raster.cuh"
#include "gemm/tensor_tile.cuh"
#include "gemm/tile_loop.cuh"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/streamed.h"
#include "kernels/pointwise/epilogue.h"
#include "pointwise/walk.cuh"

/// The sums of a tile over K from `k_begin` on, up to `k_left` steps.
template <class Tile, class A, class B, class Sum, int BatchRank, class Epilogue>
__device__ __forceinline__ void multiply_part(Tile& sums, char* shared,
                                              const WithEpilogue<BatchedGemmArgs<A, B, Sum, BatchRank>, Epilogue>& args,
                                              const TilePlace& place, u32 k_begin, int k_left) {
  const GemmArgs<A, B, Sum>& g = args.args.gemm;
  const u32 row = place.row * Tile::tile_m, column = place.column * Tile::tile_n;
  const int k_tiles = (k_left + Tile::tile_k - 1) / Tile::tile_k;
  i64 begin[2];
  args.args.batches.template locate<1>(place.batch, begin);
  constexpr bool a_k_major = Tile::CopyA::k_major, b_k_major = Tile::CopyB::k_major;
  typename Tile::CopyA copy_a(g.a + begin[0] + row * g.a_row + k_begin * g.a_k,                                 // (TileM, TileK)
                              a_k_major ? g.a_row : g.a_k, a_k_major ? g.a_k : g.a_row, g.m - row);
  typename Tile::CopyB copy_b(g.b + begin[1] + column * g.b_column + k_begin * g.b_k,                           // (TileK, TileN)
                              b_k_major ? g.b_column : g.b_k, b_k_major ? g.b_k : g.b_column, g.n - column);

  multiply_tiles(sums, shared, k_tiles, [&](u32 to_a, u32 to_b, int t) {
    copy_a(to_a, k_left - t * Tile::tile_k);
    copy_b(to_b, k_left - t * Tile::tile_k);
  });
  if constexpr (Tile::row_sums) sums.take_zeros(g.b_zeros + column, static_cast<int>(g.n - column));
}

/// Launch: (tiles of all batches, splits) blocks of Tile::threads; Tile::shared_bytes of dynamic shared memory.
template <class Tile, bool Split, class A, class B, class Sum, int BatchRank, class Epilogue>
__device__ __forceinline__ void gemm_block(const WithEpilogue<BatchedGemmArgs<A, B, Sum, BatchRank>, Epilogue>& args) {
  extern __shared__ __align__(128) char shared[];
  const GemmArgs<A, B, Sum>& g = args.args.gemm;
  const Epilogue& epilogue = args.epilogue;
  const TilePlace place(blockIdx.x, g.tiles_m, g.tiles_n);
  const u32 row = place.row * Tile::tile_m, column = place.column * Tile::tile_n;
  const u32 k_begin = Split ? blockIdx.y * g.split_k : 0;
  Tile sums;                                                                                      // (TileM, TileN)
  multiply_part(sums, shared, args, place, k_begin,
                static_cast<int>(Split && g.k - k_begin > g.split_k ? g.split_k : g.k - k_begin));

  const int rows = static_cast<int>(g.m - row), columns = static_cast<int>(g.n - column);         // inside of the output
  const auto start = epilogue.start(place.batch);
  finish_tile<Split>(sums, shared, rows, columns, g.partial, g.arrived, [&](int r, int c, const Sum(&v)[4]) {
    epilogue.apply(start, row + r, column + c, static_cast<u32>(columns - c), v);
  });
}

/// Launch: g.split_k blocks, which have a tile each, and behind them at most as many as the other tiles have steps of K; of
/// Tile::threads; Tile::shared_bytes of dynamic shared memory.
template <class Tile, class A, class B, class Sum, int BatchRank, class Epilogue>
__device__ __forceinline__ void gemm_streamed(const WithEpilogue<BatchedGemmArgs<A, B, Sum, BatchRank>, Epilogue>& args) {
  extern __shared__ __align__(128) char shared[];
  const GemmArgs<A, B, Sum>& g = args.args.gemm;
  const Epilogue& epilogue = args.epilogue;
  const u32 whole = g.split_k, of_tile = (g.k + Tile::tile_k - 1) / Tile::tile_k;                 // of_tile: steps of a stage
  const u32 tiles = args.args.batches.chunks * g.tiles_m * g.tiles_n;
  const bool alone = blockIdx.x < whole;
  const u32 block = blockIdx.x - whole;                                                           // of the streaming ones
  const StreamedSteps streamed{u64{tiles - whole} * of_tile, gridDim.x - whole, of_tile};
  const u64 end = alone ? of_tile : streamed.begin(block + 1);
#pragma unroll 1
  for (u64 at = alone ? 0 : streamed.begin(block); at < end;) {
    const u32 tile = static_cast<u32>(at / of_tile), first = static_cast<u32>(at % of_tile);      // tile: of the streamed ones
    const u32 steps = end - at < of_tile - first ? static_cast<u32>(end - at) : of_tile - first;
    const TilePlace place(alone ? blockIdx.x : whole + tile, g.tiles_m, g.tiles_n);
    const u32 row = place.row * Tile::tile_m, column = place.column * Tile::tile_n, k_begin = first * Tile::tile_k;
    const u32 k_left = g.k - k_begin < steps * Tile::tile_k ? g.k - k_begin : steps * Tile::tile_k;
    Tile sums;                                                                                    // (TileM, TileN)
    multiply_part(sums, shared, args, place, k_begin, static_cast<int>(k_left));
    const int rows = static_cast<int>(g.m - row), columns = static_cast<int>(g.n - column);       // inside of the output
    const auto start = epilogue.start(place.batch);
    const auto finish = [&](int r, int c, const Sum(&v)[4]) {
      epilogue.apply(start, row + r, column + c, static_cast<u32>(columns - c), v);
    };
    if (steps == of_tile) {
      finish_tile<false>(sums, shared, rows, columns, g.partial, g.arrived, finish);
    } else {
      const u32 first_block = streamed.first_block(tile), blocks = streamed.last_block(tile) - first_block + 1;
      const auto part = [&](u32 i) {
        const u32 of = first_block + i;
        return g.partial + (i64{of} * 2 + streamed.part(tile, of)) * (Tile::tile_m * Tile::tile_n);
      };
      finish_parts(sums, shared, rows, columns, block - first_block, blocks, g.arrived + tile, part, finish);
    }
    at += steps;
    Tile::synchronize();                                                                          // before shared memory is filled again
  }
}
