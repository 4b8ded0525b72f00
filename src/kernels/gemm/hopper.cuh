// Matrix products with an epilogue on Hopper, as gemm/gemm.cuh has them:
//
//   y[batch, m, n] = Epilogue(sum over k of a[batch, m, k] · b[batch, k, n], operands at [batch, m, n])
//
// One warp issues the copies of a ring of stages, one to three groups of four warps multiply them. Each stage has two barriers:
// full (its bytes have arrived), empty (all groups of its tile are done with it). Where Persistent, a block goes over several
// tiles, and the copies of the next begin while this one is finished; where the groups alternate (CUTLASS: ping-pong), so do its
// products.
#pragma once

#include "common/cluster.cuh"
#include "common/dependent_launch.cuh"
#include "common/ptx/barriers.cuh"
#include "common/ptx/copies.cuh"
#include "common/ptx/wgmma.cuh"
#include "gemm/hopper_finish.cuh"
#include "gemm/hopper_shares.cuh"
#include "gemm/raster.cuh"
#include "gemm/tile_loop.cuh"
#include "pointwise/walk.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// How a kernel goes over its tiles and finishes them.
template <HopperFinishing Finishing, int Splits, bool Persistent, class Staging> struct HopperPlan {
  static constexpr HopperFinishing finishing = Finishing;
  static constexpr bool in_registers = Finishing == HopperFinishing::in_registers || Finishing == HopperFinishing::side_by_side;
  template <class Tile, class Epilogue> using Registers = typename InRegisters<Finishing, Tile, Staging, Epilogue>::Type;
  static constexpr int splits = Splits;                                     // over a cluster
  static constexpr bool persistent = Persistent;
  using Operands = Staging;
};

/// Blocks of a cluster.
template <class Tile, class Plan> __device__ constexpr int hopper_cluster() { return Plan::splits * static_cast<int>(Tile::Patch::blocks); }

/// Where the tile that a block has of place `at` begins in y.
template <class Tile> struct TileOrigin {
  u32 batch, row, column;
  __device__ __forceinline__ TileOrigin(u32 at, const HopperGemmArgs& g) {
    const TilePlace place(at, g.tiles_m, g.tiles_of_batch, g.tiles_of_raster);
    batch = place.batch, row = place.row, column = place.column;              // of patches
    if constexpr (Tile::down > 1) row = row * Tile::down + Tile::Patch::down();
    if constexpr (Tile::across > 1) column = column * Tile::across + Tile::Patch::across();
    row *= Tile::tile_m, column *= Tile::tile_n;
  }
};

/// The lines of a of a tile, as the copying thread brings them stage by stage: where they lie is what kinds of kernels' arguments
/// differ in, and so each has its own.
template <class Tile, class Args> class LeftLines;

/// Of matrices.
template <class Tile, int BatchRank> class LeftLines<Tile, BatchedHopperArgs<BatchRank>> {
  using Args = BatchedHopperArgs<BatchRank>;

 public:
  static __device__ __forceinline__ void prefetch(const Args& args) { ptx::prefetch_tensormap(&args.gemm.a); }
  __device__ __forceinline__ LeftLines(const Args& args, u32 batch, u32 row, u32 k) : args_(args), row_(row), k_(k) {
    args.batches.template locate<1>(batch, matrix_);
  }
  __device__ __forceinline__ i32 matrix_b() const { return static_cast<i32>(matrix_[1]); }
  /// Issues the copies of the next stage's.
  __device__ __forceinline__ void copy(u32 shared, u32 barrier) {
    Tile::OperandA::copy(shared, args_.gemm.a, row_, k_, static_cast<i32>(matrix_[0]), barrier, Tile::Patch::of_a());
    k_ += Tile::tile_k;
  }

 private:
  const Args& args_;
  i32 row_, k_;
  i64 matrix_[2];
};

/// The copying thread.
template <class Tile, class Plan, class Args, class Epilogue>
__device__ __forceinline__ void copy_tiles(const WithEpilogue<Args, Epilogue>& args, u32 ring, u32 k_begin, int k_tiles) {
  const HopperGemmArgs& g = args.args.gemm;
  RingPlace place;
  bool first = true;
#pragma unroll 1
  for (u32 at = blockIdx.x / hopper_cluster<Tile, Plan>(); at < g.tiles; at += gridDim.x / hopper_cluster<Tile, Plan>()) {
    const TileOrigin<Tile> tile(at, g);
    LeftLines<Tile, Args> a(args.args, tile.batch, tile.row, k_begin);
    int ahead = 0;
    if (first) {
      if (g.b_ahead) ahead = Tile::copy_ahead(ring, g.b, tile.column, k_begin, a.matrix_b(), k_tiles);
      wait_for_kernels_before();
      first = false;
    }
    Tile::copy(ring, a, g.b, tile.column, k_begin, a.matrix_b(), k_tiles, place, ahead);
    if constexpr (!Plan::persistent) break;
  }
  if constexpr (Tile::shares) Tile::drain(ring, place);
}

/// The threads that have sums. `memory`: the ring, and what is behind it.
template <class Tile, class Plan, class Args>
__device__ __forceinline__ void multiply_and_finish(const Args& args, char* memory, u32 ring, int k_tiles) {
  const HopperGemmArgs& g = args.args.gemm;
  const auto& epilogue = args.epilogue;
  wait_for_kernels_before();
  constexpr bool in_registers = Plan::in_registers;
  RingPlace place;
  constexpr u32 cluster = hopper_cluster<Tile, Plan>();
  u32 turn = Tile::group() == 0 ? 1 : 0, at = blockIdx.x / cluster;         // turn: the phase that is to have ended
  const u32 blocks = gridDim.x / cluster;
  if constexpr (Tile::alternate) at += Tile::group() * blocks, place.template advance_by<Tile::stages>(Tile::group() * k_tiles);
  constexpr int step = Tile::alternate ? Tile::groups : 1;
  bool first = true;
  u32 batch_before = 0, column_before = 0;
#pragma unroll 1
  for (; at < g.tiles; at += step * blocks) {
    const TileOrigin<Tile> tile(at, g);
    const u32 row = tile.row, column = tile.column;
    Tile sums;                                                              // (TileM, TileN)
    const auto multiply = [&] {
      // Stages are waited for in their order: a group may do so when the one before has seen all of its tile.
      if constexpr (Tile::alternate) wait_for_phase(Tile::turn(ring, Tile::group()), turn), turn ^= 1;
      sums.template multiply<Plan::Operands::sums == 1>(ring, k_tiles, place, [&] {
        if constexpr (Tile::alternate)
          if (Tile::lane() == 0) ptx::mbarrier_arrive(Tile::turn(ring, (Tile::group() + 1) % Tile::groups));
      });
      if constexpr (Tile::alternate) place.template advance_by<Tile::stages>((Tile::groups - 1) * k_tiles);
    };
    if constexpr (in_registers && Plan::splits > 1) {
      using Shares = ClusterShares<Tile, Plan::splits>;
      using Share = typename Shares::Share;
      static_assert(!Plan::persistent && Plan::Operands::sums == 1 && !Plan::Operands::mapped && Tile::norm == HopperNorm::none);
      Shares::begin();
      const u32 first = Shares::split() * Share::columns;
      const SameRows rows;
      typename Plan::template Registers<Share, decltype(args.epilogue)> finish(epilogue, memory + Tile::ring_bytes + Shares::bytes, rows,
                                                                               g.m, g.n);
      finish.begin(tile.batch, row + (Tile::swap ? first : 0), column + (Tile::swap ? 0 : first));
      multiply();
      Share mine;
      Shares::exchange(sums, mine, memory + Tile::ring_bytes, ring);
      finish.finish(mine);
    } else if constexpr (in_registers) {
      constexpr u32 products = Plan::Operands::sums;
      const SameRows rows;
      typename Plan::template Registers<Tile, decltype(args.epilogue)> finish(epilogue, memory + Tile::ring_bytes, rows, g.m,
                                                                              g.n / products);
      if constexpr (Plan::Operands::mapped) finish.store_by(g.y);
      finish.begin(tile.batch, row, column / products, first || tile.batch != batch_before || column != column_before);
      first = false, batch_before = tile.batch, column_before = column;
      multiply();
      if constexpr (Tile::norm != HopperNorm::none) sums.normalise(g.inverse_k, g.epsilon);
      finish.finish(sums);
    } else if constexpr (Plan::finishing == HopperFinishing::split_by_cluster) {
      ClusterFinish<Tile, Plan::splits, typename Plan::Operands, decltype(args.epilogue)> finish(epilogue, tile.batch, row, column, g.m, g.n);
      static_assert(Tile::norm == HopperNorm::none);
      multiply();
      finish.finish(sums, memory, ring);
    } else {
      static_assert(Tile::norm == HopperNorm::none);
      multiply();
      const int rows = static_cast<int>(g.m - row), columns = static_cast<int>(g.n - column);     // inside of the output
      const auto start = epilogue.start(tile.batch);
      finish_tile<Plan::finishing == HopperFinishing::split_by_memory>(
          sums, memory + Tile::ring_bytes, rows, columns, static_cast<typename Tile::Sum*>(g.partial), g.arrived,
          [&](int r, int c, const typename Tile::Sum(&v)[4]) {
            epilogue.apply(start, row + r, column + c, Plan::Operands::inside(columns - c), v);
          });
    }
    if constexpr (!Plan::persistent) break;
  }
  if constexpr (in_registers && Plan::splits == 1) Plan::template Registers<Tile, decltype(args.epilogue)>::leave();
}

/// Bytes of dynamic shared memory; the ring begins at a multiple of 1024.
template <class Tile, class Plan, class Epilogue> __device__ constexpr int hopper_shared_bytes() {
  if constexpr (Plan::in_registers && Plan::splits > 1) {
    using Shares = ClusterShares<Tile, Plan::splits>;
    return 1024 + Tile::ring_bytes + Shares::bytes + Plan::template Registers<typename Shares::Share, Epilogue>::bytes;
  } else if constexpr (Plan::in_registers)
    return 1024 + Tile::ring_bytes + Plan::template Registers<Tile, Epilogue>::bytes;
  else if constexpr (Plan::finishing == HopperFinishing::split_by_cluster) return 1024 + Tile::ring_bytes;
  else return 1024 + Tile::ring_bytes + 4 * Tile::groups * Tile::exchange_bytes;
}

/// Launch: blocks of Tile::block_threads with hopper_shared_bytes() of dynamic shared memory; (tiles of all batches, or as many
/// as run at once where Persistent; splits by memory) of them, or (tiles · splits) in clusters of splits. Where blocks are patches,
/// in clusters of as many more, one patch behind the other; tiles_m and all numbers of tiles count patches of them.
template <class Tile, class Plan, class Args, class Epilogue>
__device__ __forceinline__ void hopper_block(const WithEpilogue<Args, Epilogue>& args) {
  extern __shared__ __align__(128) char shared[];
  const HopperGemmArgs& g = args.args.gemm;
  const u32 beyond = (1024 - shared_address(shared) % 1024) % 1024, ring = shared_address(shared) + beyond;
  const bool copies = threadIdx.x == Tile::threads, multiplies = threadIdx.x < Tile::threads;
  if (copies) {
    if constexpr (!Tile::b_packed) ptx::prefetch_tensormap(&g.b);
    LeftLines<Tile, Args>::prefetch(args.args);
    Tile::initialize(ring);
    if constexpr (Plan::Operands::mapped) {
      constexpr int columns = Tile::columns / Plan::Operands::sums;
      if constexpr (columns >= hopper_store_columns) ptx::prefetch_tensormap(g.y);
      if constexpr (columns % hopper_store_columns != 0) ptx::prefetch_tensormap(g.y + 1);
    }
  }
  // The warp that copies goes on at once, where it copies to this block alone.
  if constexpr (Tile::shares) meet_cluster();
  else if (multiplies) Tile::begin();
  else if (threadIdx.x < Tile::threads + 32) __syncwarp(), Tile::let_begin();
  const u32 split = Plan::splits > 1 ? block_of_cluster() / Tile::Patch::blocks : blockIdx.y, k_begin = split * g.split_k;
  const u32 k_left = g.k - k_begin < g.split_k ? g.k - k_begin : g.split_k;
  const int k_tiles = static_cast<int>((k_left + Tile::tile_k - 1) / Tile::tile_k);
  if (!multiplies) {
    if constexpr (Tile::registers) ptx::setmaxnreg_dec<24>();
    constexpr bool finishes_shares = Plan::in_registers && Plan::splits > 1;
    if constexpr (finishes_shares) __syncwarp(), ClusterShares<Tile, Plan::splits>::begin();
    if (copies) copy_tiles<Tile, Plan>(args, ring, k_begin, k_tiles);
    if constexpr (finishes_shares) __syncwarp(), ClusterShares<Tile, Plan::splits>::end();
  } else {
    if constexpr (Tile::registers) ptx::setmaxnreg_inc<Tile::registers>();
    multiply_and_finish<Tile, Plan>(args, shared + beyond, ring, k_tiles);
  }
}

#endif
