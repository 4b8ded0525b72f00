// Attention by tiles on tensor cores: Dao, "FlashAttention-2", arXiv:2307.08691. With few query rows the keys are split too: Dao
// et al., "Flash-Decoding for long-context inference", 2023.
//
//   q, k, v, y    as attention/problem.cuh says, f16 or bf16; rows contiguous, each row 16-byte aligned, Depth and ValueDepth
//                 multiples of 8 (the padded columns of q and k up to 16 are zeros)
//
// A block has RowWarps x KeyWarps warps. A warp holds 16 RowTiles rows of queries and goes over its part of each tile of Keys
// keys: S = Q Kt in fragments of (16, 8), the softmax's running maximum and sum, then O += P V. P is rounded to T in registers,
// where the result of a product has the layout of the next product's left operand. The results of KeyWarps warps are added in
// shared memory, the results of the grid's splits by combine.cuh; both in a fixed order.
//
// cp.async copies tiles of K and V, Stages of them in flight. Their rows lie an odd number of 16-byte vectors apart, so that the
// eight rows that an ldmatrix reads touch all banks. A permutation would need depths that are powers of two; 40, 72 and 80 are
// depths too.
//
// Launch: row tiles x pairs x splits blocks of 32 RowWarps KeyWarps threads; Flash::shared_bytes of dynamic shared memory.
// attention/flash_block.cuh says what a block does, this file what its warps do with a tile.
#pragma once

#include "attention/problem.cuh"
#include "attention/weights.cuh"
#include "common/mma.cuh"
#include "common/ptx/matrices.cuh"
#include "common/ptx/numbers.cuh"
#include "common/tile_copy.cuh"
#include "common/warp.cuh"
#include "kernels/attention/flash.h"

namespace smelt_flash {

/// A tile of Rows rows of Vectors 16-byte vectors each. A vector of zeros follows them where a padded depth needs it.
template <class T, int Rows, int Vectors, int Padded, int Threads> struct Tile {
  static constexpr int vectors = Vectors;
  static constexpr int pitch = (Padded | 1) * 16;                                  // bytes
  static constexpr int bytes = Rows * pitch;
  using Share = TileThreads<Rows, Vectors, Threads>;
  static_assert(Share::whole_lines);

  /// Writes zeros to the vectors behind each row. `anywhere` is not read.
  static __device__ __forceinline__ void clear_padding(u32 to, const T* anywhere) {
    if constexpr (Padded > Vectors)
#pragma unroll 1
      for (u32 i = threadIdx.x; i < Rows * (Padded - Vectors); i += Threads)
        copy_async<16>(to + i / (Padded - Vectors) * pitch + (Vectors + i % (Padded - Vectors)) * 16, anywhere, false);
  }
};

/// Copies tiles of a tensor's rows: a thread copies one vector of every step-th row. A tile's rows span less than 2^31 bytes.
template <class Tile, class T, int Rows> struct TileCopies {
  using Share = typename Tile::Share;
  const char* from;                                                                // this thread's first vector of tile 0
  u32 to, row, step_bytes, tile_bytes;

  __device__ __forceinline__ TileCopies(const T* rows, i64 stride) {
    row = Share::template line<u32>(0);
    const u32 vector = Share::template copy<u32>(0);
    from = reinterpret_cast<const char*>(rows + row * stride) + vector * 16;
    to = row * Tile::pitch + vector * 16;
    step_bytes = static_cast<u32>(stride) * Share::step * 2;
    tile_bytes = static_cast<u32>(stride) * Rows * 2;
  }
  /// Copies a tile of which `inside` rows exist; the others become zeros.
  __device__ __forceinline__ void copy(u32 tile_address, u32 tile, u32 inside) const {
    if (row >= Share::step) return;
    const char* source = from + static_cast<u64>(tile) * tile_bytes;
    const u32 target = tile_address + to;
    if (inside >= Rows) {
#pragma unroll
      for (int i = 0; i < Share::each; ++i, source += step_bytes)
        if ((i + 1) * Share::step <= Rows || !Share::template beyond<u32>(i))
          copy_async<16>(target + i * Share::step * Tile::pitch, source, true);
    } else {
#pragma unroll
      for (int i = 0; i < Share::each; ++i, source += step_bytes)
        if ((i + 1) * Share::step <= Rows || !Share::template beyond<u32>(i))
          copy_async<16>(target + i * Share::step * Tile::pitch, source, row + i * Share::step < inside);
    }
  }
};

}  // namespace smelt_flash

template <class T, FlashConfig Config> struct Flash {
  static constexpr int Depth = Config.depth, ValueDepth = Config.value_depth;
  static constexpr int RowTiles = Config.row_tiles, RowWarps = Config.row_warps, KeyWarps = Config.key_warps;
  static constexpr int Keys = Config.keys, Stages = Config.stages;
  static constexpr bool HeldQueries = Config.held_queries;
  static constexpr int row_tiles = RowTiles, keys = Keys, stages = Stages, value_depth = ValueDepth;
  static constexpr float log2e = smelt_flash::log2e;
  static constexpr int threads = 32 * RowWarps * KeyWarps;
  static constexpr int rows = 16 * RowTiles * RowWarps;                            // of a block
  static constexpr int warp_keys = Keys / KeyWarps;
  static constexpr int steps = (Depth + 15) / 16;                                  // of 16 along the depth
  static constexpr int columns = ValueDepth / 8;                                   // fragments of a row of values
  static_assert(Depth % 8 == 0 && ValueDepth % 8 == 0 && warp_keys % 16 == 0);
  using Queries = smelt_flash::Tile<T, rows, Depth / 8, 2 * steps, threads>;
  using KeyTile = smelt_flash::Tile<T, Keys, Depth / 8, 2 * steps, threads>;
  using ValueTile = smelt_flash::Tile<T, Keys, columns, columns, threads>;
  static constexpr int stage_bytes = KeyTile::bytes + ValueTile::bytes;
  /// The exchange takes the place of the stages; a cluster's is no larger.
  static constexpr int exchange_bytes = KeyWarps > 1 ? rows * (ValueDepth + 2 * KeyWarps) * 4 : 0;
  static constexpr int stages_bytes = Stages * stage_bytes > exchange_bytes ? Stages * stage_bytes : exchange_bytes;
  static constexpr int shared_bytes = Queries::bytes + stages_bytes;

  float o[RowTiles][columns][4];                                                   // (16, ValueDepth) a row tile
  float top[RowTiles][2], total[RowTiles][2];                                      // (2) a row tile: rows lane / 4, lane / 4 + 8
  u32 held[HeldQueries ? RowTiles : 1][HeldQueries ? steps : 1][4];                // (16, 16) of Q a row tile and step

  u32 key_at, value_at;                                                            // of this lane's rows in a tile, for ldmatrix

  static __device__ __forceinline__ u32 lane() { return threadIdx.x % 32; }
  static __device__ __forceinline__ u32 warp_row() { return threadIdx.x / 32 / KeyWarps * 16 * RowTiles; }
  static __device__ __forceinline__ u32 key_warp() { return threadIdx.x / 32 % KeyWarps; }

  __device__ __forceinline__ void clear() {
    key_at = (key_warp() * warp_keys + lane() / 16 * 8 + lane() % 8) * KeyTile::pitch + lane() / 8 % 2 * 16;
    value_at = (key_warp() * warp_keys + lane() % 16) * ValueTile::pitch + lane() / 16 * 16;
#pragma unroll
    for (int m = 0; m < RowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < columns; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) o[m][n][e] = 0;
#pragma unroll
      for (int e = 0; e < 2; ++e) top[m][e] = minus_infinity, total[m][e] = 0;
    }
  }

  static __device__ __forceinline__ void load_queries(u32 (&a)[4], u32 queries, int m, int step) {
    const u32 row = warp_row() + 16 * m + lane() % 16;                             // the query whose row this lane's address is
    ptx::ldmatrix<4>(a, queries + row * Queries::pitch + (2 * step + lane() / 16) * 16);
  }
  __device__ __forceinline__ void hold_queries(u32 queries) {
    if constexpr (HeldQueries)
#pragma unroll
      for (int m = 0; m < RowTiles; ++m)
#pragma unroll
        for (int s = 0; s < steps; ++s) load_queries(held[m][s], queries, m, s);
  }

  /// S = Q Kt                                                                     // (16, warp_keys) a row tile
  __device__ __forceinline__ void scores(float (&s)[RowTiles][warp_keys / 8][4], u32 queries, u32 keys) const {
#pragma unroll
    for (int m = 0; m < RowTiles; ++m)
#pragma unroll
      for (int n = 0; n < warp_keys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[m][n][e] = 0;
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      u32 a[RowTiles][4];                                                          // (16, 16) of Q a row tile
#pragma unroll
      for (int m = 0; m < RowTiles; ++m) {
        if constexpr (HeldQueries) {
#pragma unroll
          for (int e = 0; e < 4; ++e) a[m][e] = held[m][step][e];
        } else {
          load_queries(a[m], queries, m, step);
        }
      }
#pragma unroll
      for (int n = 0; n < warp_keys / 16; ++n) {
        u32 b[4];                                                                  // (16 keys, 16) of K
        ptx::ldmatrix<4>(b, keys + key_at + 16 * n * KeyTile::pitch + 32 * step);
        const u32 left[2] = {b[0], b[1]}, right[2] = {b[2], b[3]};
#pragma unroll
        for (int m = 0; m < RowTiles; ++m) {
          Mma<T>::add(s[m][2 * n], a[m], left);
          Mma<T>::add(s[m][2 * n + 1], a[m], right);
        }
      }
    }
  }

  static __device__ __forceinline__ float faded_by(float old, float now) { return smelt_flash::faded_by(old, now); }

  /// Replaces s by exp(scale s - max), and scales o and total to the new maximum. `scale` is positive, `factor` is scale log2e.
  /// Low: scale is 1 and s may be so low that s log2e overflows or loses bits. Then the maximum is subtracted first, which takes
  /// one addition a score more.
  template <bool Low> __device__ __forceinline__ void soften(float (&s)[RowTiles][warp_keys / 8][4], float scale, float factor) {
#pragma unroll
    for (int m = 0; m < RowTiles; ++m) {
      float faded[2];                                                              // (2) of the rows of a row tile
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float highest = fmaxf(s[m][0][2 * r], s[m][0][2 * r + 1]);
#pragma unroll
        for (int n = 1; n < warp_keys / 8; ++n) highest = fmaxf(highest, fmaxf(s[m][n][2 * r], s[m][n][2 * r + 1]));
        highest = fold_quad(highest, [](float a, float b) { return fmaxf(a, b); });
        highest = fmaxf(top[m][r], Low ? highest : highest * scale);
        faded[r] = faded_by(top[m][r], highest);
        top[m][r] = highest;
        const float most = highest == minus_infinity ? 0.f : highest, base = most * log2e;    // nothing visible: exp2(-inf) is 0
        float sums[2] = {};                                                        // (2) of even and odd columns
#pragma unroll
        for (int n = 0; n < warp_keys / 8; ++n)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float x = s[m][n][2 * r + e];
            s[m][n][2 * r + e] = smelt_flash::exp2_of(Low ? (x - most) * log2e : x * factor - base);
            sums[e] += s[m][n][2 * r + e];
          }
        total[m][r] = total[m][r] * faded[r] + (sums[0] + sums[1]);               // of this lane's columns
      }
      // After the first tiles a new maximum is rare.
      if (__any_sync(full_warp, faded[0] != 1 || faded[1] != 1)) {
#pragma unroll
        for (int n = 0; n < columns; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) o[m][n][e] *= faded[e / 2];
      }
    }
  }

  /// O += P V
  __device__ __forceinline__ void add_values(const float (&s)[RowTiles][warp_keys / 8][4], u32 values) {
#pragma unroll
    for (int k = 0; k < warp_keys / 16; ++k) {
      u32 a[RowTiles][4];                                                          // (16, 16) of P a row tile
#pragma unroll
      for (int m = 0; m < RowTiles; ++m)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          a[m][e] = smelt_flash::rounded_pair<T>(s[m][2 * k + e / 2][e % 2 * 2], s[m][2 * k + e / 2][e % 2 * 2 + 1]);
      const u32 from = values + value_at + 16 * k * ValueTile::pitch;
#pragma unroll
      for (int n = 0; n + 1 < columns; n += 2) {
        u32 b[4];                                                                  // (16 keys, 16) of V
        ptx::ldmatrix_trans<4>(b, from + n * 16);
        const u32 left[2] = {b[0], b[1]}, right[2] = {b[2], b[3]};
#pragma unroll
        for (int m = 0; m < RowTiles; ++m) {
          Mma<T>::add(o[m][n], a[m], left);
          Mma<T>::add(o[m][n + 1], a[m], right);
        }
      }
      if constexpr (columns % 2 == 1) {
        u32 b[2];                                                                  // (16 keys, 8) of V
        ptx::ldmatrix_trans<2>(b, from + (columns - 1) * 16);
#pragma unroll
        for (int m = 0; m < RowTiles; ++m) Mma<T>::add(o[m][columns - 1], a[m], b);
      }
    }
  }

  /// Adds the lanes' parts of the sums. Where KeyWarps warps share the rows, adds the warps' parts too, one warp after the other
  /// through shared memory. The warps of key_warp() 0 then have the result in registers.
  __device__ __forceinline__ void reduce(u8* exchange) {
#pragma unroll
    for (int m = 0; m < RowTiles; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) total[m][r] = sum_quad(total[m][r]);
    if constexpr (KeyWarps > 1) {
      float* const sums = reinterpret_cast<float*>(exchange);                     // (rows, ValueDepth)
      float* const stats = sums + rows * ValueDepth;                              // (rows, KeyWarps, 2)
      const u32 first = warp_row() + lane() / 4, pair = lane() % 4;
#pragma unroll
      for (int m = 0; m < RowTiles; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r)
          if (pair == 0) {
            float* const mine = stats + ((first + 16 * m + 8 * r) * KeyWarps + key_warp()) * 2;
            mine[0] = top[m][r];
            mine[1] = total[m][r];
          }
      __syncthreads();
#pragma unroll
      for (int m = 0; m < RowTiles; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float* const all = stats + (first + 16 * m + 8 * r) * KeyWarps * 2;
          float highest = minus_infinity;
#pragma unroll
          for (int w = 0; w < KeyWarps; ++w) highest = fmaxf(highest, all[2 * w]);
          const float faded = faded_by(top[m][r], highest);
          float sum = 0;
#pragma unroll
          for (int w = 0; w < KeyWarps; ++w) sum += all[2 * w + 1] * faded_by(all[2 * w], highest);
          top[m][r] = highest;
          total[m][r] = sum;
#pragma unroll
          for (int n = 0; n < columns; ++n) {
            o[m][n][2 * r] *= faded;
            o[m][n][2 * r + 1] *= faded;
          }
        }
#pragma unroll
      for (int w = KeyWarps - 1; w >= 0; --w) {
        if (key_warp() == w) {
#pragma unroll
          for (int m = 0; m < RowTiles; ++m)
#pragma unroll
            for (int r = 0; r < 2; ++r)
#pragma unroll
              for (int n = 0; n < columns; ++n) {
                Vector<float, 2>* const at =
                    reinterpret_cast<Vector<float, 2>*>(sums + (first + 16 * m + 8 * r) * ValueDepth + 8 * n + 2 * pair);
                if (w < KeyWarps - 1) {
                  o[m][n][2 * r] += at->at[0];
                  o[m][n][2 * r + 1] += at->at[1];
                }
                if (w > 0) *at = {o[m][n][2 * r], o[m][n][2 * r + 1]};
              }
        }
        if (w > 0) __syncthreads();
      }
    }
  }
};
