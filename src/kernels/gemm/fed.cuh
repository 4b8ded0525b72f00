// Matrix products by mma.sync, as gemm/gemm.cuh has them, whose stages of 64 steps of K tensor maps bring (TMA): one thread issues a copy
// or a few for all of a stage, so that the warps' loads from shared memory stand behind none of their own. A warp more for it would leave
// the others 168 registers, which spill. For GPUs that have tensor maps, from sm_90 on, whether they have wgmma or not.
//
// Each stage has two barriers: full (its bytes have arrived), empty (all warps have its fragments). No barrier of the block stands in the
// loop. Where Persistent, a block goes over several tiles, and the stages of the next come while this one is
// finished.
#pragma once

#include "common/dependent_launch.cuh"
#include "common/ptx/barriers.cuh"
#include "common/ptx/copies.cuh"
#include "gemm/hopper_operand.cuh"
#include "gemm/raster.cuh"
#include "gemm/tile_loop.cuh"
#include "gemm/wide_finish.cuh"
#include "gemm/woven_tile.cuh"
#include "kernels/gemm/hopper.h"
#include "kernels/pointwise/epilogue.h"
#include "pointwise/walk.cuh"

#if __CUDA_ARCH__ >= 900

template <class E, int M, int N, int WarpsM, int WarpsN, int StageCount, int Ring, bool AKMajor, bool BKMajor>
struct FedTile : WovenTile<E, E, M, N, 64, WarpsM, WarpsN, StageCount, Ring, AKMajor, 8, BKMajor, 8, true> {
  using Woven = WovenTile<E, E, M, N, 64, WarpsM, WarpsN, StageCount, Ring, AKMajor, 8, BKMajor, 8, true>;
  using OperandA = HopperOperand<M, AKMajor>;
  using OperandB = HopperOperand<N, BKMajor>;
  using Woven::ring_bytes;
  using Woven::stage_bytes;
  using Woven::threads;
  static_assert(OperandA::bytes == Woven::CopyA::tile_bytes && OperandB::bytes == Woven::CopyB::tile_bytes);
  static constexpr int barrier_bytes = (16 * StageCount + 127) / 128 * 128;

  static __device__ __forceinline__ u32 full(u32 ring, int stage) { return ring + ring_bytes + stage * 16; }
  static __device__ __forceinline__ u32 empty(u32 ring, int stage) { return full(ring, stage) + 8; }
  static __device__ __forceinline__ void initialize(u32 ring) {
#pragma unroll
    for (int s = 0; s < StageCount; ++s) ptx::mbarrier_init(full(ring, s), 1), ptx::mbarrier_init(empty(ring, s), threads / 32);
    ptx::fence_mbarrier_init();
  }
};

/// Bytes of dynamic shared memory; the ring begins at a multiple of 1024. The exchange is behind it where the next tile's stages come
/// while sums go through it, else in it.
template <class Tile, bool Persistent> __device__ constexpr int fed_shared_bytes() {
  return 1024 + Tile::ring_bytes + Tile::barrier_bytes + (Persistent ? Tile::exchange_bytes : 0);
}

/// What one thread brings: the stages of the block's tiles, one after the other.
template <class Tile, bool Persistent> struct Feeder {
  u32 at = blockIdx.x;                                                      // tile
  int t = 0;                                                                // of its stages
  RingPlace place;

  /// The next stage, once all warps are done with what lies there; nothing behind the last.
  template <class Args> __device__ __forceinline__ void bring(const Args& args, u32 ring, int k_tiles) {
    const HopperGemmArgs& g = args.gemm;
    if (at >= g.tiles) return;
    const TilePlace tile(at, g.tiles_m, g.tiles_of_batch, g.tiles_of_raster);
    i64 matrix[2];
    args.batches.template locate<1>(tile.batch, matrix);
    const i32 row = tile.row * Tile::tile_m, column = tile.column * Tile::tile_n;
    const u32 full = Tile::full(ring, place.stage), stage = ring + place.stage * Tile::stage_bytes;
    wait_for_phase(Tile::empty(ring, place.stage), place.phase ^ 1);
    ptx::mbarrier_arrive_expect_tx(full, Tile::stage_bytes);
    Tile::OperandA::copy(stage, g.a, row, t * Tile::tile_k, static_cast<i32>(matrix[0]), full, {0, 1});
    Tile::OperandB::copy(stage + Tile::OperandA::bytes, g.b, column, t * Tile::tile_k, static_cast<i32>(matrix[1]), full, {0, 1});
    place.advance<Tile::stages>();
    if (++t == k_tiles) t = 0, at = Persistent ? at + gridDim.x : g.tiles;
  }
};

/// All of a block's tiles. `memory`: the ring's.
template <class Tile, bool Persistent, u32 ByColumn, class Args>
__device__ __forceinline__ void multiply_fed(const Args& args, char* memory, u32 ring, int k_tiles) {
  const HopperGemmArgs& g = args.args.gemm;
  const auto& epilogue = args.epilogue;
  Tile sums;                                                                // (TileM, TileN)
  RingPlace place;
  Feeder<Tile, Persistent> feeder;
  const auto feed = [&] {
    if (threadIdx.x == 0) feeder.bring(args.args, ring, k_tiles);
  };
#pragma unroll 1
  for (int s = 0; s < Tile::stages - 1; ++s) feed();
  wait_for_phase(Tile::full(ring, 0), 0);
  sums.prologue(ring);
#pragma unroll 1
  for (u32 at = blockIdx.x; at < g.tiles; at += gridDim.x) {
    const bool last = !Persistent || g.tiles - at <= gridDim.x;
#pragma unroll 1
    for (int t = 0; t < k_tiles; ++t) {
      RingPlace next = place;
      next.advance<Tile::stages>();
      const bool more = !last || t + 1 < k_tiles;                           // else what loads is not used
      sums.multiply_woven(ring + place.stage * Tile::stage_bytes, ring + next.stage * Tile::stage_bytes, [] {}, feed, [&] {
        if (more) wait_for_phase(Tile::full(ring, next.stage), next.phase);
      });
      __syncwarp();
      if (Tile::lane() == 0) ptx::mbarrier_arrive(Tile::empty(ring, place.stage));
      place = next;
    }
    if constexpr (!Persistent) Tile::synchronize();                          // all have their fragments: the ring is the exchange
    char* const exchange = Persistent ? memory + Tile::ring_bytes + Tile::barrier_bytes : memory;
    const TilePlace tile(at, g.tiles_m, g.tiles_of_batch, g.tiles_of_raster);
    const u32 row = tile.row * Tile::tile_m, column = tile.column * Tile::tile_n;
    if constexpr (decltype(args.epilogue)::width > 4) {
      finish_wide<ByColumn>(sums, exchange, epilogue, tile.batch, g.m, g.n, row, column);
    } else {
      const int rows = static_cast<int>(g.m - row), columns = static_cast<int>(g.n - column);     // inside of the output
      const auto start = epilogue.start(tile.batch);
      finish_tile<false>(sums, exchange, rows, columns, static_cast<float*>(nullptr), nullptr,
                         [&](int r, int c, const float(&v)[4]) {
                           epilogue.apply(start, row + r, column + c, static_cast<u32>(columns - c), v);
                         });
    }
    if constexpr (!Persistent) break;
    sums.clear();
  }
}

/// Launch: a block for each tile, or as many as run at once where Persistent, of Tile::threads with fed_shared_bytes() of dynamic shared
/// memory.
template <class Tile, bool Persistent, u32 ByColumn, int BatchRank, class Epilogue>
__device__ __forceinline__ void fed_block(const WithEpilogue<BatchedHopperArgs<BatchRank>, Epilogue>& args) {
  extern __shared__ __align__(128) char shared[];
  const HopperGemmArgs& g = args.args.gemm;
  const u32 beyond = (1024 - shared_address(shared) % 1024) % 1024, ring = shared_address(shared) + beyond;
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&g.a), ptx::prefetch_tensormap(&g.b);
    Tile::initialize(ring);
  }
  __syncthreads();
  wait_for_kernels_before();
  const int k_tiles = static_cast<int>((g.k + Tile::tile_k - 1) / Tile::tile_k);
  multiply_fed<Tile, Persistent, ByColumn>(args, shared + beyond, ring, k_tiles);
}

#endif
