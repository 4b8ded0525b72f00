// The main loop and the end of products whose operands are copied to shared memory tile by tile; a may be a matrix or an image.
//
// Tile is a TensorTile or a FloatTile. K may be split: blocks then write their sums to a workspace, and the last block to arrive at
// a tile adds them in the order of their parts of K. The same inputs give the same bits, and no block waits for another.
#pragma once

#include "common/copy_ring.cuh"
#include "common/ptx/memory.cuh"

/// Loads from the L2 cache, where the writes of other blocks are visible.
template <class T> __device__ __forceinline__ Vector<T, 4> past_l1(const Vector<T, 4>* from) {
  const uint4 x = ptx::ld_global_cg_v4(from);
  return *reinterpret_cast<const Vector<T, 4>*>(&x);
}

/// Issues the copies of the first Tile::stages - 1 stages, and waits for the first of them. left(to), right(to): issue the copies of
/// the next tile along K of either operand to an address in shared memory; beyond the last tile these bring zeros.
template <class Tile, class Ring, class Left, class Right>
__device__ __forceinline__ void fill_stages(char* shared, Ring& ring, Left&& left, Right&& right) {
  const u32 first = shared_address(shared);
#pragma unroll
  for (int s = 0; s < Tile::stages - 1; ++s) {
    left(first + s * Tile::stage_bytes);
    right(first + s * Tile::stage_bytes + Tile::CopyA::tile_bytes);
    copy_async_commit();
  }
  ring.wait();
}

/// sums += the products of the next `count` stages of a WovenTile, whose first fragments are loaded.
template <class Tile, class Ring, class Left, class Right>
__device__ __forceinline__ void multiply_stages(Tile& sums, char* shared, Ring& ring, int count, Left&& left, Right&& right) {
#pragma unroll 1
  for (int t = 0; t < count; ++t) {
    const u32 filling = shared_address(shared) + ring.filling();
    sums.multiply_woven(
        shared_address(shared + ring.current()), shared_address(shared + ring.next()), [&] { left(filling); },
        [&] {
          right(filling + Tile::CopyA::tile_bytes);
          ring.issued_ahead();
        },
        [&] { ring.wait(); });
    ring.advance();
  }
}

/// sums += the products of `k_tiles` tiles along K. issue(a, b, t) issues the copies of tile t of both operands to the addresses
/// a and b in shared memory; it is called once for each t, in order, Tile::stages - 1 tiles before tile t is multiplied. added(t) is
/// called when it has been. `shared` is free afterwards.
template <class Tile, class Issue, class Added>
__device__ __forceinline__ void multiply_tiles(Tile& sums, char* shared, int k_tiles, Issue&& issue, Added&& added) {
  const u32 first = shared_address(shared);
  const auto issue_stage = [&](int stage, int t) { issue(first + stage, first + stage + Tile::CopyA::tile_bytes, t); };
  CopyRing<StageOffsets<Tile::stages, Tile::stage_bytes>> ring;
  ring.fill(0, k_tiles, issue_stage);
  ring.wait();
  sums.prologue(shared);
#pragma unroll 1
  for (int t = 0; t < k_tiles; ++t) {
    ring.issue_ahead(t, k_tiles, issue_stage);
    sums.multiply(shared + ring.current(), shared + ring.next(), [&] { ring.wait(); });
    added(t);
    ring.advance();
  }
  ring.drain();
}
template <class Tile, class Issue>
__device__ __forceinline__ void multiply_tiles(Tile& sums, char* shared, int k_tiles, Issue&& issue) {
  multiply_tiles(sums, shared, k_tiles, issue, [](int) {});
}

/// Part `mine` of a tile's `count`: writes the sums to part(mine), and the last block to arrive calls finish() with the sums of all
/// parts, added in their order. part(i): (TileM, TileN) of the workspace. arrived: the tile's counter, 0 between launches.
template <class Tile, class Part, class F>
__device__ __forceinline__ void finish_parts(const Tile& sums, char* shared, int rows, int columns, u32 mine, u32 count, u32* arrived,
                                             Part&& part, F&& finish) {
  using Sum = typename Tile::Sum;
  using Four = Vector<Sum, 4>;
  Sum* own = part(mine);
  sums.each(shared, [&](int r, int c, const Sum(&v)[4]) {
    if (r < rows && c < columns) *reinterpret_cast<Four*>(own + r * Tile::tile_n + c) = {v[0], v[1], v[2], v[3]};
  });
  __threadfence();
  Tile::synchronize();
  u32* last = reinterpret_cast<u32*>(shared);
  if (threadIdx.x == 0) *last = atomicInc(arrived, count - 1) == count - 1;
  Tile::synchronize();
  if (!*last) return;
  __threadfence();
  for (int q = threadIdx.x; q < Tile::tile_m * Tile::tile_n / 4; q += Tile::threads) {
    const int r = q / (Tile::tile_n / 4), c = q % (Tile::tile_n / 4) * 4;
    if (r >= rows || c >= columns) continue;
    Four sum = {};                                                          // (4) of a row
#pragma unroll 4
    for (u32 s = 0; s < count; ++s) {
      const Four x = past_l1(reinterpret_cast<const Four*>(part(s) + r * Tile::tile_n + c));
#pragma unroll
      for (int e = 0; e < 4; ++e) sum.at[e] += x.at[e];
    }
    finish(r, c, sum.at);
  }
}

/// Calls finish(row, column, values) for the tile's first `rows` rows and `columns` columns, four neighbouring columns at a time.
/// `values` are the sums; where K is split over blockIdx.y, the sums of all splits, and only the last block to arrive calls.
///
///   partial    (tile, split, TileM, TileN)
///   arrived    (tile), 0 between launches
template <bool Split, class Tile, class F>
__device__ __forceinline__ void finish_tile(const Tile& sums, char* shared, int rows, int columns,
                                            typename Tile::Sum* partial, u32* arrived, F&& finish) {
  using Sum = typename Tile::Sum;
  if constexpr (!Split) {
    sums.each(shared, [&](int r, int c, const Sum(&v)[4]) {
      if (r < rows && c < columns) finish(r, c, v);
    });
  } else {
    constexpr i64 area = Tile::tile_m * Tile::tile_n;
    Sum* parts = partial + static_cast<i64>(blockIdx.x) * gridDim.y * area;                       // (split, TileM, TileN)
    finish_parts(sums, shared, rows, columns, blockIdx.y, gridDim.y, arrived + blockIdx.x,
                 [&](u32 split) { return parts + split * area; }, finish);
  }
}
