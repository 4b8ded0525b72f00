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
#include "gemm/wide_finish.cuh"
#include "gemm/woven_tile.cuh"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/streamed.h"
#include "kernels/pointwise/epilogue.h"
#include "pointwise/walk.cuh"

/// What copies a tile's part of either operand from step `k_begin` of K on.
template <class Tile, class A, class B, class Sum, int BatchRank, class Epilogue>
__device__ __forceinline__ typename Tile::CopyA copy_left(const WithEpilogue<BatchedGemmArgs<A, B, Sum, BatchRank>, Epilogue>& args,
                                                          const TilePlace& place, u32 k_begin) {
  const GemmArgs<A, B, Sum>& g = args.args.gemm;
  constexpr bool k_major = Tile::CopyA::k_major;
  const u32 row = place.row * Tile::tile_m;
  i64 begin[2];
  args.args.batches.template locate<1>(place.batch, begin);
  return {g.a + begin[0] + row * g.a_row + k_begin * g.a_k, k_major ? g.a_row : g.a_k, k_major ? g.a_k : g.a_row, g.m - row};
}
template <class Tile, class A, class B, class Sum, int BatchRank, class Epilogue>
__device__ __forceinline__ typename Tile::CopyB copy_right(const WithEpilogue<BatchedGemmArgs<A, B, Sum, BatchRank>, Epilogue>& args,
                                                           const TilePlace& place, u32 k_begin) {
  const GemmArgs<A, B, Sum>& g = args.args.gemm;
  constexpr bool k_major = Tile::CopyB::k_major;
  const u32 column = place.column * Tile::tile_n;
  i64 begin[2];
  args.args.batches.template locate<1>(place.batch, begin);
  return {g.b + begin[1] + column * g.b_column + k_begin * g.b_k, k_major ? g.b_column : g.b_k, k_major ? g.b_k : g.b_column,
          g.n - column};
}

/// The sums of a tile over K from `k_begin` on, up to `k_left` steps.
template <class Tile, class A, class B, class Sum, int BatchRank, class Epilogue>
__device__ __forceinline__ void multiply_part(Tile& sums, char* shared,
                                              const WithEpilogue<BatchedGemmArgs<A, B, Sum, BatchRank>, Epilogue>& args,
                                              const TilePlace& place, u32 k_begin, int k_left) {
  const int k_tiles = (k_left + Tile::tile_k - 1) / Tile::tile_k, steps = k_left;
  typename Tile::CopyA copy_a = copy_left<Tile>(args, place, k_begin);                            // (TileM, TileK)
  typename Tile::CopyB copy_b = copy_right<Tile>(args, place, k_begin);                           // (TileK, TileN)
  if constexpr (requires { Tile::woven; }) {
    CopyRing<StageOffsets<Tile::stages, Tile::stage_bytes>> ring;
    const auto left = [&](u32 to) { copy_a(to, k_left); };
    const auto right = [&](u32 to) {
      copy_b(to, k_left);
      k_left -= Tile::tile_k;
    };
    fill_stages<Tile>(shared, ring, left, right);
    sums.prologue(shared);
    multiply_stages(sums, shared, ring, k_tiles, left, right);
    ring.drain();
  } else {
    multiply_tiles(sums, shared, k_tiles, [&](u32 to_a, u32 to_b, int t) {
      copy_a(to_a, k_left - t * Tile::tile_k);
      copy_b(to_b, k_left - t * Tile::tile_k);
    });
  }
  if constexpr (Tile::zeros != 0) sums.take_zeros(args.args.gemm, place.column * Tile::tile_n, steps);
}

/// Launch: (tiles of all batches, splits) blocks of Tile::threads; Tile::shared_bytes of dynamic shared memory.
template <class Tile, bool Split, u32 ByColumn = 0, class A, class B, class Sum, int BatchRank, class Epilogue>
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
  if constexpr (Epilogue::width > 4) {
    finish_wide<ByColumn>(sums, shared, epilogue, place.batch, g.m, g.n, row, column);
  } else {
    const int rows = static_cast<int>(g.m - row), columns = static_cast<int>(g.n - column);       // inside of the output
    const auto start = epilogue.start(place.batch);
    finish_tile<Split>(sums, shared, rows, columns, g.partial, g.arrived, [&](int r, int c, const Sum(&v)[4]) {
      epilogue.apply(start, row + r, column + c, static_cast<u32>(columns - c), v);
    });
  }
}

/// Launch: any number of blocks of Tile::threads, each of which has every gridDim.x-th tile; of dynamic shared memory the ring's and
/// the exchange's. The copies of a tile's first stages are under way while the tile before it is multiplied and finished.
template <class Tile, u32 ByColumn = 0, class A, class B, class Sum, int BatchRank, class Epilogue>
__device__ __forceinline__ void gemm_persistent(const WithEpilogue<BatchedGemmArgs<A, B, Sum, BatchRank>, Epilogue>& args) {
  extern __shared__ __align__(128) char shared[];
  const GemmArgs<A, B, Sum>& g = args.args.gemm;
  const Epilogue& epilogue = args.epilogue;
  const u32 tiles = args.args.batches.chunks * g.tiles_m * g.tiles_n;
  const int k_tiles = static_cast<int>((g.k + Tile::tile_k - 1) / Tile::tile_k);
  u32 copied = blockIdx.x;                                                                        // tile that is copied
  auto copy_a = copy_left<Tile>(args, TilePlace(copied, g.tiles_m, g.tiles_n), 0);                // (TileM, TileK)
  auto copy_b = copy_right<Tile>(args, TilePlace(copied, g.tiles_m, g.tiles_n), 0);               // (TileK, TileN)
  int k_left = static_cast<int>(g.k);
  const auto start_tile = [&] {
    const TilePlace place(copied, g.tiles_m, g.tiles_n);
    copy_a = copy_left<Tile>(args, place, 0), copy_b = copy_right<Tile>(args, place, 0), k_left = static_cast<int>(g.k);
  };
  const auto left = [&](u32 to) {
    if (k_left <= 0 && copied < tiles) {
      copied += gridDim.x;
      if (copied < tiles) start_tile();
    }
    copy_a(to, k_left);
  };
  const auto right = [&](u32 to) {
    copy_b(to, k_left);
    k_left -= Tile::tile_k;
  };
  CopyRing<StageOffsets<Tile::stages, Tile::stage_bytes>> ring;
  fill_stages<Tile>(shared, ring, left, right);
  Tile sums;                                                                                      // (TileM, TileN)
  sums.prologue(shared);
#pragma unroll 1
  for (u32 at = blockIdx.x; at < tiles; at += gridDim.x) {
    multiply_stages(sums, shared, ring, k_tiles, left, right);
    const TilePlace place(at, g.tiles_m, g.tiles_n);
    const u32 row = place.row * Tile::tile_m, column = place.column * Tile::tile_n;
    if constexpr (Epilogue::width > 4) {
      finish_wide<ByColumn>(sums, shared + Tile::ring_bytes, epilogue, place.batch, g.m, g.n, row, column);
    } else {
      const int rows = static_cast<int>(g.m - row), columns = static_cast<int>(g.n - column);       // inside of the output
      const auto start = epilogue.start(place.batch);
      finish_tile<false>(sums, shared + Tile::ring_bytes, rows, columns, g.partial, g.arrived, [&](int r, int c, const Sum(&v)[4]) {
        epilogue.apply(start, row + r, column + c, static_cast<u32>(columns - c), v);
      });
    }
    sums.clear();
  }
  ring.drain();
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
