// How the sums of a HopperTile whose K is split over a cluster become y.
#pragma once

#include "common/cluster.cuh"
#include "common/ptx/barriers.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/copies.cuh"
#include "common/ptx/memory.cuh"
#include "gemm/hopper_columns.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// The end of a K that is split over the blocks of a cluster, of which block s (of patches, those of patch s) has the sums of split s:
/// each block adds the splits' parts of its share of the tile's rows in their order, and applies the program, `width` columns at a time. What the
/// first of them read is loaded before the tile is multiplied, where there are registers for it. In the ring's memory:
///
///   own        (TileM, pitch)            the block's sums, whose rows it copies to those who add them
///   others     (other split) of (share, pitch)
template <class Tile, int Splits, class Staging, class Epilogue> class ClusterFinish {
  using Sum = typename Tile::Sum;
  static constexpr int width = Epilogue::width, across = Tile::tile_n / width, share = (Tile::tile_m + Splits - 1) / Splits;
  static constexpr int mine = (share * across + Tile::threads - 1) / Tile::threads;   // vectors of a thread
  static constexpr int ahead = mine < 4 ? mine : 4, together = Splits <= 4 ? 2 : 1;
  static constexpr bool early = Tile::rows * Tile::columns / 2 <= 64 && Tile::groups < 3;   // there are registers for it
  // Neither the lanes of a store nor of a load meet in a bank.
  static constexpr int pitch = Tile::swap ? Tile::tile_n + 4 : Tile::tile_n % 16 == 8 ? Tile::tile_n : Tile::tile_n + 8;
  static_assert((Tile::tile_m + (Splits - 1) * share) * pitch * 4 <= Tile::barriers && width % 4 == 0);

 public:
  __device__ __forceinline__ ClusterFinish(const Epilogue& epilogue, u32 batch, u32 row, u32 column, u32 m, u32 n)
      : epilogue_(epilogue), start_(epilogue.start(batch)), row_(row), column_(column), m_(m), n_(n) {
    if constexpr (early) fetch_first();
  }

  /// `parts`: the ring's memory, whose stages have all been multiplied by this group; `ring` its address.
  __device__ __forceinline__ void finish(const Tile& sums, char* parts, u32 ring) {
    Sum* const own = reinterpret_cast<Sum*>(parts);
    Tile::synchronize();                                                     // all groups are done with the ring
    sums.write(own, pitch);
    ptx::fence_proxy_async();
    Tile::synchronize();                                                     // all sums are there
    ptx::barrier_cluster_arrive_relaxed();
    if constexpr (!early) fetch_first();
    ptx::barrier_cluster_wait();                                             // all blocks are done with their rings
    send(ring);
    wait_for_phase(Tile::received(ring), 0);
    const int rank = split();
#pragma unroll
    for (int first = 0; first < mine; first += together) {
      Vector<Sum, 4> part[together][Splits][width / 4];
#pragma unroll
      for (int i = 0; i < together; ++i) {
        u32 r, c;
        if (first + i >= mine || !place(first + i, r, c)) continue;
#pragma unroll
        for (int s = 0; s < Splits; ++s) {
          const int line = s == rank ? r : Tile::tile_m + (s < rank ? s : s - 1) * share + r - rank * share;
#pragma unroll
          for (int v = 0; v < width / 4; ++v)
            part[i][s][v] = *reinterpret_cast<const Vector<Sum, 4>*>(own + line * pitch + c + v * 4);
        }
      }
#pragma unroll
      for (int i = 0; i < together; ++i) {
        u32 r, c;
        if (first + i >= mine || !place(first + i, r, c)) continue;
        Sum sum[width];
#pragma unroll
        for (int e = 0; e < width; ++e) {
          sum[e] = part[i][0][e / 4].at[e % 4];
#pragma unroll
          for (int s = 1; s < Splits; ++s) sum[e] += part[i][s][e / 4].at[e % 4];
        }
        if (first + i >= ahead) fetch(first + i);
        epilogue_.write(operands_[(first + i) % ahead], Staging::inside(n_ - column_ - c), sum);
      }
    }
    __syncwarp();
    meet_cluster();                                                          // no block leaves before its sums have been copied
  }

 private:
  static __device__ __forceinline__ int split() { return static_cast<int>(block_of_cluster() / Tile::Patch::blocks); }
  static __device__ __forceinline__ u32 in_split(u32 shared, int split) {
    return address_in_block(shared, split * Tile::Patch::blocks + block_of_cluster() % Tile::Patch::blocks);
  }
  static __device__ __forceinline__ int rows_of(int block) {
    const int left = Tile::tile_m - block * share;
    return left < 0 ? 0 : left < share ? left : share;
  }
  /// Thread t copies the rows that block t adds to it.
  static __device__ __forceinline__ void send(u32 ring) {
    constexpr int line = pitch * 4;
    const int rank = split(), to = threadIdx.x;
    if (to == rank) ptx::mbarrier_arrive_expect_tx(Tile::received(ring), (Splits - 1) * rows_of(rank) * line);
    if (to < Splits && to != rank && rows_of(to) > 0)
      ptx::cp_async_bulk_to_cluster(in_split(ring + (Tile::tile_m + (rank < to ? rank : rank - 1) * share) * line, to),
                                    ring + to * share * line, rows_of(to) * line, in_split(Tile::received(ring), to));
  }
  /// Where in the tile this thread's `i`-th vector lies; whether y has it.
  __device__ __forceinline__ bool place(int i, u32& row, u32& column) const {
    const int q = i * Tile::threads + threadIdx.x, rank = split();
    row = rank * share + q / across, column = q % across * width;
    return q < rows_of(rank) * across && row_ + row < m_ && column_ + column < n_;
  }
  __device__ __forceinline__ void fetch_first() {
#pragma unroll
    for (int i = 0; i < ahead; ++i) fetch(i);
  }
  __device__ __forceinline__ void fetch(int i) {
    u32 r, c;
    if (place(i, r, c))
      epilogue_.fetch(operands_[i % ahead], start_, row_ + r, column_ + c, Staging::inside(n_ - column_ - c));
  }

  const Epilogue& epilogue_;
  typename Epilogue::Start start_;
  typename Epilogue::Operands operands_[ahead];
  u32 row_, column_, m_, n_;
};

#endif
