// How the blocks of a cluster, over which K is split, each come by the sums of a share of their tile.
#pragma once

#include "common/cluster.cuh"
#include "common/ptx/barriers.cuh"
#include "common/ptx/cluster.cuh"
#include "gemm/hopper_tile.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// A share of the columns of right, as if it were a tile of its own: what finishes tiles finishes it.
template <class Tile, int Splits> struct HopperShare : Tile {
  static constexpr int columns = Tile::columns / Splits;
  static constexpr int tile_m = Tile::swap ? Tile::tile_m / Splits : Tile::tile_m, tile_n = Tile::swap ? Tile::tile_n : Tile::tile_n / Splits;
  static_assert(columns * Splits == Tile::columns && columns % 8 == 0);
  typename Tile::Sum d[Tile::rows][columns / 2];
};

/// Block s of a cluster (of patches, those of patch s) has the sums of split s, and finishes share s of the columns. A thread's sums of
/// a share are those that the same thread of another block has: each sends them from its registers to that block's memory, where
/// the barrier counts them, so that nobody waits for more than what it adds:
///
///   received  (other split) of (rows, columns / 8, threads) of 4 sums
template <class Tile, int Splits> class ClusterShares {
  using Sum = typename Tile::Sum;
  static constexpr int blocks = Tile::columns / Splits / 8, step = Tile::threads * 16, of_split = Tile::rows * blocks * step;

 public:
  using Share = HopperShare<Tile, Splits>;
  static constexpr int bytes = (Splits - 1) * of_split;
  static __device__ __forceinline__ int split() { return static_cast<int>(block_of_cluster() / Tile::Patch::blocks); }

  /// Every thread of the block before the products, the copying warp's too: that the ring's barriers are initialised, which blocks have
  /// to know of each other. Those that have sums wait in exchange(), all others in end().
  static __device__ __forceinline__ void begin() { ptx::barrier_cluster_arrive_relaxed(); }
  /// No thread leaves for which others would have to stop waiting.
  static __device__ __forceinline__ void end() { ptx::barrier_cluster_wait(); }

  /// `memory`: `bytes` of shared memory. Parts are added in the order of the splits.
  static __device__ __forceinline__ void exchange(const Tile& sums, Share& mine, char* memory, u32 ring) {
    const int rank = split();
    const u32 here = shared_address(memory) + threadIdx.x * 16;
    if (threadIdx.x == 0) ptx::mbarrier_arrive_expect_tx(Tile::received(ring), bytes);
    ptx::barrier_cluster_wait();
#pragma unroll
    for (int q = 0; q < Splits; ++q) {
      if (q == rank) {
#pragma unroll
        for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
          for (int e = 0; e < blocks * 4; ++e) mine.d[i][e] = sums.d[i][q * blocks * 4 + e];
      } else {
        const u32 block = q * Tile::Patch::blocks + block_of_cluster() % Tile::Patch::blocks;
        const u32 there = address_in_block(here + (rank < q ? rank : rank - 1) * of_split, block);
        const u32 barrier = address_in_block(Tile::received(ring), block);
#pragma unroll
        for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
          for (int j = 0; j < blocks; ++j) {
            const Vector<Sum, 4> part = {sums.d[i][(q * blocks + j) * 4], sums.d[i][(q * blocks + j) * 4 + 1],
                                         sums.d[i][(q * blocks + j) * 4 + 2], sums.d[i][(q * blocks + j) * 4 + 3]};
            ptx::st_async_v4(there + (i * blocks + j) * step, reinterpret_cast<const u32(&)[4]>(part), barrier);
          }
      }
    }
    wait_for_phase(Tile::received(ring), 0);
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
      for (int j = 0; j < blocks; ++j) {
        Vector<Sum, 4> others[Splits - 1];
#pragma unroll
        for (int s = 0; s < Splits - 1; ++s) {
          const uint4 words = ptx::ld_shared_v4(here + s * of_split + (i * blocks + j) * step);
          others[s] = reinterpret_cast<const Vector<Sum, 4>&>(words);
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const Sum own = mine.d[i][j * 4 + e];
          Sum sum = rank == 0 ? own : others[0].at[e];
#pragma unroll
          for (int s = 1; s < Splits; ++s) {
            const Sum before = others[s - 1].at[e], here = s < Splits - 1 ? others[s % (Splits - 1)].at[e] : own;
            sum += s == rank ? own : s < rank ? here : before;
          }
          mine.d[i][j * 4 + e] = sum;
        }
      }
  }
};

#endif
