// What a block of attention/flash.cuh does: its rows, the tiles of keys that they see, and where the results go.
//
//   Packed    a block has rows of all query heads that read the same keys: row r is query r % queries of head r / queries of the
//             group. With few queries a head, the keys are then read once a group
//   map       written by attention/map.cuh; from one batch and head to the next it has `map_batch` and `map_head` groups of rows;
//             where `map_groups` is 1, one group is for all rows
//   Splits    plan.splits blocks share the keys; their results are added in the order of the splits. grid: combine.cuh adds them;
//             cluster: the cluster's blocks do, each for a part of the columns, from each other's shared memory
//   partial   for combine.cuh: O before the division, (splits, pairs x rows, ValueDepth), then maximum and sum,
//             (splits, pairs x rows, 2)
//   CachedFlashArgs   keys and values are the rows of a cache's past, problem.k and problem.v, and behind them those of `cache`. The
//             block writes the tiles that it goes over to the present: no two blocks have tiles of the same key head and all see
//             all keys (one tile of rows, packed where heads share keys, no map)
#pragma once

#include "attention/cache.cuh"
#include "attention/flash.cuh"
#include "attention/map.cuh"
#include "attention/scores.cuh"
#include "common/cluster.cuh"
#include "common/copy_ring.cuh"

enum class Splits { none, grid, cluster };

/// A row of a block: which head and query it is.
struct FlashRow {
  u32 head, query;
};
template <bool Packed, class T>
__device__ __forceinline__ FlashRow flash_row(const AttentionProblem<T>& p, u32 group_or_head, u32 row) {
  if constexpr (Packed) {
    const u32 head = row / p.queries;
    return {group_or_head * p.group + head, row - head * p.queries};
  } else {
    return {group_or_head, row};
  }
}

template <template <class> class Args> constexpr bool keeps_cache = false;
template <> constexpr bool keeps_cache<CachedFlashArgs> = true;

/// The tiles that a block goes over, in order: all numbers, or a list in shared memory where there is a map.
template <bool Mapped> struct FlashTiles {
  u32 count;
  const u16* list;
  __device__ __forceinline__ u32 number(u32 n) const { return Mapped ? list[n] >> 1 : n; }
  __device__ __forceinline__ bool scored(u32 n) const { return Mapped ? list[n] & 1 : true; }
};

/// Lists the tiles that any of the `groups` rows of a map (at most Groups) shows: twice the tile's number, plus 1 where the tile
/// is scored. By one warp.
template <int Groups> __device__ __forceinline__ u32 list_tiles(const u8* map, u32 groups, u32 tiles, u16* list) {
  u32 count = 0;
  for (u32 begin = 0; begin < tiles; begin += 32) {
    const u32 tile = begin + threadIdx.x % 32;
    u32 bits = 0;
#pragma unroll
    for (int g = 0; g < Groups; ++g)
      if (g < groups && tile < tiles) bits |= map[static_cast<u64>(g) * tiles + tile];
    const bool seen = bits & (map_open | map_scored);
    const u32 visible = __ballot_sync(full_warp, seen);
    if (seen) list[count + __popc(visible & ((1u << threadIdx.x % 32) - 1))] = static_cast<u16>(2 * tile + (bits != map_open));
    count += __popc(visible);
  }
  return count;
}

/// Adds the results that the blocks of a cluster hold in registers, and writes the sums to y_of(row). Each block writes a part of
/// the `rows` x ValueDepth elements. `exchange`: shared memory of F::rows x (ValueDepth + 2) floats.
template <class F, class T, class Rows>
__device__ __forceinline__ void add_up_cluster(const F& f, const AttentionProblem<T>& p, const FlashPlan& plan, float* exchange,
                                               u32 rows, const Rows& y_of) {
#if __CUDA_ARCH__ >= 900
  constexpr u32 vectors = F::value_depth / 4;
  float* const stats = exchange + F::rows * F::value_depth;                          // (rows, 2) of maximum and sum
  __syncthreads();                                                                   // the warps have added theirs in it
  if (F::key_warp() == 0) {
#pragma unroll
    for (int m = 0; m < F::row_tiles; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const u32 row = F::warp_row() + 16 * m + 8 * r + F::lane() / 4, column = 2 * (F::lane() % 4);
#pragma unroll
        for (int n = 0; n < F::columns; ++n)
          *reinterpret_cast<Vector<float, 2>*>(exchange + row * F::value_depth + 8 * n + column) = {f.o[m][n][2 * r],
                                                                                                    f.o[m][n][2 * r + 1]};
        if (column == 0) *reinterpret_cast<Vector<float, 2>*>(stats + 2 * row) = {f.top[m][r], f.total[m][r]};
      }
  }
  synchronize_cluster();
  const u32 own = shared_address(exchange), own_stats = shared_address(stats);
  for (u32 i = block_of_cluster() * F::threads + threadIdx.x; i < rows * vectors; i += plan.splits * F::threads) {
    const u32 row = i / vectors, column = i % vectors * 4;
    float most = minus_infinity, total = 0, sums[4] = {};                            // (4) of a row of O
    for (u32 s = 0; s < plan.splits; ++s) most = fmaxf(most, load_2_in_cluster(address_in_block(own_stats + 8 * row, s)).at[0]);
    for (u32 s = 0; s < plan.splits; ++s) {
      const Vector<float, 2> stat = load_2_in_cluster(address_in_block(own_stats + 8 * row, s));
      const Vector<float, 4> o = load_4_in_cluster(address_in_block(own + 4 * (row * F::value_depth + column), s));
      const float weight = F::faded_by(stat.at[0], most);
      total += weight * stat.at[1];
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[e] += weight * o.at[e];
    }
    const bool zero = !(total > 0) && p.nan_guard;
    const float part = 1 / total;
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[e] = zero ? 0.f : sums[e] * part;
    u32* const to = reinterpret_cast<u32*>(y_of(row) + column);
    to[0] = smelt_flash::rounded_pair<T>(sums[0], sums[1]);
    to[1] = smelt_flash::rounded_pair<T>(sums[2], sums[3]);
  }
  synchronize_cluster();  // no block leaves while others read what it holds
#endif
}

template <class F, bool Packed, MaskKind Mask, bool Mapped, Splits Split, class Scores, template <class> class Args, class T,
          int Operands>
__device__ __forceinline__ void flash_block(const WithScores<Args<T>, Operands>& args) {
  const AttentionProblem<T>& p = args.args.problem;
  const FlashPlan& plan = args.args.plan;
  extern __shared__ __align__(128) u8 shared[];
  constexpr int Keys = F::keys, Stages = F::stages, RowTiles = F::row_tiles, ValueDepth = F::value_depth,
                warp_keys = F::warp_keys;
  // With a causal mask, the rows that see the most keys come first, since they take longest.
  constexpr bool descending = Mask == MaskKind::causal || Mapped, Cached = keeps_cache<Args>;
  static_assert(!Cached || !Mapped);
  const u32 split = Split == Splits::none ? 0 : blockIdx.x % plan.splits,
            block = Split == Splits::none ? blockIdx.x : blockIdx.x / plan.splits;
  const u32 row_tile = descending ? plan.row_tiles - 1 - block / plan.pairs : block % plan.row_tiles;
  const u32 pair = descending ? block % plan.pairs : block / plan.row_tiles;
  const u32 heads = Packed ? p.heads / p.group : p.heads, b = pair / heads, h = pair % heads, g = Packed ? h : h / p.group;
  const u32 all_rows = Packed ? p.group * p.queries : p.queries, first_row = row_tile * F::rows;
  const u32 first_query = Packed ? 0 : first_row;
  const u32 last_query = Packed ? p.queries - 1 : (first_row + F::rows < all_rows ? first_row + F::rows : all_rows) - 1;
  const T* const q = p.q + b * p.q_strides[0];                                       // [heads, queries, Depth]
  const T* const k = p.k + b * p.k_strides[0] + g * p.k_strides[1];                  // [keys, Depth]
  const T* const v = p.v + b * p.v_strides[0] + g * p.v_strides[1];                  // [keys, ValueDepth]
  T* const y = p.y + b * p.y_strides[0];                                             // [heads, queries, ValueDepth]
  Scores scores(args.operands);
  if constexpr (!Packed) scores.seek(b, h);

  const u32 queries = shared_address(shared), stages = queries + F::Queries::bytes;
  {
    constexpr int vectors = F::Queries::vectors;
#pragma unroll 2
    for (u32 i = threadIdx.x; i < F::rows * vectors; i += F::threads) {
      const u32 row = i / vectors, vector = i % vectors;
      const bool inside = first_row + row < all_rows;
      const FlashRow r = flash_row<Packed>(p, h, inside ? first_row + row : 0);
      const T* const from = q + r.head * p.q_strides[1] + r.query * p.q_strides[2];  // [Depth]
      copy_async<16>(queries + row * F::Queries::pitch + vector * 16, from + vector * 8, inside);
    }
    F::Queries::clear_padding(queries, q);
#pragma unroll
    for (int s = 0; s < Stages; ++s) F::KeyTile::clear_padding(stages + s * F::stage_bytes, q);
  }

  u32 end = p.keys;
  if constexpr (Mask == MaskKind::causal) {
    const i64 seen = static_cast<i64>(last_query) + plan.offset + 1;
    end = seen < 0 ? 0 : seen < end ? static_cast<u32>(seen) : end;
  }
  FlashTiles<Mapped> tiles{(end + Keys - 1) / Keys, reinterpret_cast<const u16*>(shared + F::shared_bytes)};
  if constexpr (Mapped) {
    __shared__ u32 listed;
    if (threadIdx.x < 32) {
      const u32 group = plan.map_groups > 1 ? first_row / MapRows : 0, left = plan.map_groups - group;
      const u8* const rows = args.args.map + (static_cast<u64>(b) * plan.map_batch + h * plan.map_head + group) * tiles.count;
      const u32 count =
          list_tiles<F::rows / MapRows>(rows, left, tiles.count, reinterpret_cast<u16*>(shared + F::shared_bytes));
      if (threadIdx.x == 0) listed = count;
    }
    __syncthreads();
    tiles.count = listed;
  }
  u32 at = 0, stop = tiles.count;
  if constexpr (Split != Splits::none) {
    const u32 part = (tiles.count + plan.splits - 1) / plan.splits;
    at = split * part;
    stop = at + part < tiles.count ? at + part : tiles.count;
  }

  const auto key_copies = [&] {
    if constexpr (Cached) {
      const CacheArgs<T>& c = args.args.cache;
      return smelt_flash::CachedCopies<typename F::KeyTile, T, Keys>(
          k, p.k_strides[2], c.k + b * c.k_strides[0] + g * c.k_strides[1], c.k_strides[2],
          c.present_k + b * c.present_k_strides[0] + g * c.present_k_strides[1], c.present_k_strides[2], c.past);
    } else {
      return smelt_flash::TileCopies<typename F::KeyTile, T, Keys>(k, p.k_strides[2]);
    }
  }();
  const auto value_copies = [&] {
    if constexpr (Cached) {
      const CacheArgs<T>& c = args.args.cache;
      return smelt_flash::CachedCopies<typename F::ValueTile, T, Keys>(
          v, p.v_strides[2], c.v + b * c.v_strides[0] + g * c.v_strides[1], c.v_strides[2],
          c.present_v + b * c.present_v_strides[0] + g * c.present_v_strides[1], c.present_v_strides[2], c.past);
    } else {
      return smelt_flash::TileCopies<typename F::ValueTile, T, Keys>(v, p.v_strides[2]);
    }
  }();
  const auto issue = [&](u32 stage, u32 n) {
    const u32 tile = tiles.number(n), inside = p.keys - tile * Keys;
    key_copies.copy(stage, tile, inside);
    value_copies.copy(stage + F::KeyTile::bytes, tile, inside);
  };
  CopyRing<StageAddresses<Stages, F::stage_bytes>> ring{{stages}};
  ring.fill(at, stop, issue);

  F f;                                                                               // O (16 RowTiles, ValueDepth) of this warp
  f.clear();
  const u32 first = first_row + F::warp_row() + F::lane() / 4;                       // this lane's first row
  for (u32 n = at; n < stop; ++n, ring.advance()) {
    ring.wait();
    ring.issue_ahead(n, stop, issue);
    if constexpr (Cached) {
      const u32 inside = p.keys - n * Keys;
      key_copies.store(ring.current(), n, inside);
      value_copies.store(ring.current() + F::KeyTile::bytes, n, inside);
    }
    if (n == at) f.hold_queries(queries);
    float s[RowTiles][warp_keys / 8][4];                                             // (16, warp_keys) a row tile
    f.scores(s, queries, ring.current());

    const u32 first_key = tiles.number(n) * Keys;
    const u32 key = first_key + F::key_warp() * warp_keys + 2 * (F::lane() % 4);     // this lane's first key
    const bool beyond = first_key + Keys > p.keys;
    const bool scored = Mask == MaskKind::program && tiles.scored(n);
    if constexpr (Mask == MaskKind::program) {
      if (scored) {
#pragma unroll
        for (int m = 0; m < RowTiles; ++m)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const u32 row = first + 16 * m + 8 * r;
            const FlashRow of = flash_row<Packed>(p, h, row < all_rows ? row : all_rows - 1);
            Scores here = scores;
            if constexpr (Packed) here.seek(b, of.head);
#pragma unroll
            for (int c = 0; c < warp_keys / 8; ++c) {
              s[m][c][2 * r] *= plan.scale;
              s[m][c][2 * r + 1] *= plan.scale;
            }
            if (!beyond) {
              const typename Scores::Near near = here.near(of.query, key);
#pragma unroll
              for (int c = 0; c < warp_keys / 8; ++c) Scores::apply(here.two(near, 8 * c), s[m][c][2 * r], s[m][c][2 * r + 1]);
            } else {
#pragma unroll
              for (int c = 0; c < warp_keys / 8; ++c) {
                const u32 j = key + 8 * c, safe = j < p.keys ? j : 0;                // what is beyond is hidden below
                Scores::apply(here.two_of(of.query, safe, j + 1 < p.keys ? j + 1 : safe), s[m][c][2 * r], s[m][c][2 * r + 1]);
              }
            }
          }
      }
    }
    const bool diagonal =
        Mask == MaskKind::causal && static_cast<i64>(first_key) + Keys - 1 > static_cast<i64>(first_query) + plan.offset;
    if (beyond || diagonal) {
#pragma unroll
      for (int m = 0; m < RowTiles; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          u32 seen = p.keys;                                                         // of this row's keys
          if constexpr (Mask == MaskKind::causal) {
            const i64 sees = static_cast<i64>(flash_row<Packed>(p, h, first + 16 * m + 8 * r).query) + plan.offset + 1;
            seen = sees < 0 ? 0 : sees < seen ? static_cast<u32>(sees) : seen;
          }
#pragma unroll
          for (int c = 0; c < warp_keys / 8; ++c)
#pragma unroll
            for (int e = 0; e < 2; ++e)
              if (key + 8 * c + e >= seen) s[m][c][2 * r + e] = minus_infinity;
        }
    }
    if (scored) f.template soften<true>(s, 1, smelt_flash::log2e);
    else if constexpr (Mask != MaskKind::program || Mapped) f.template soften<false>(s, plan.scale, plan.factor);
    f.add_values(s, ring.current() + F::KeyTile::bytes);
  }
  ring.drain();  // the stages are free: they may be the exchange
  f.reduce(shared + F::Queries::bytes);
  if constexpr (Split == Splits::cluster) {
    const u32 left = all_rows - first_row;
    return add_up_cluster(f, p, plan, reinterpret_cast<float*>(shared + F::Queries::bytes), left < F::rows ? left : F::rows,
                          [&](u32 row) {
                            const FlashRow of = flash_row<Packed>(p, h, first_row + row);
                            return y + of.head * p.y_strides[1] + of.query * p.y_strides[2];
                          });
  }
  if (F::key_warp() != 0) return;

  const u32 pair_column = 2 * (F::lane() % 4);
#pragma unroll
  for (int m = 0; m < RowTiles; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const u32 row = first + 16 * m + 8 * r;
      if (row >= all_rows) continue;
      const float total = f.total[m][r];
      if constexpr (Split == Splits::grid) {
        const u64 rows = static_cast<u64>(plan.pairs) * all_rows, number = split * rows + static_cast<u64>(pair) * all_rows + row;
        float* const partial = args.args.partial;                                    // (splits, rows, ValueDepth + 2)
        float* const to = partial + number * ValueDepth + pair_column;               // (2) of every 8 columns
#pragma unroll
        for (int n = 0; n < F::columns; ++n)
          *reinterpret_cast<Vector<float, 2>*>(to + 8 * n) = {f.o[m][n][2 * r], f.o[m][n][2 * r + 1]};
        if (pair_column == 0)
          *reinterpret_cast<Vector<float, 2>*>(partial + plan.splits * rows * ValueDepth + 2 * number) = {f.top[m][r], total};
      } else {
        const bool hidden = !(total > 0), zero = hidden && p.nan_guard;              // no key is visible, or a score is NaN
        const float part = zero ? 0.f : 1 / total;
        const FlashRow of = flash_row<Packed>(p, h, row);
        T* const to = y + of.head * p.y_strides[1] + of.query * p.y_strides[2] + pair_column;  // (2) of every 8 columns
#pragma unroll
        for (int n = 0; n < F::columns; ++n) {
          const float left = zero ? 0.f : f.o[m][n][2 * r] * part, right = zero ? 0.f : f.o[m][n][2 * r + 1] * part;
          *reinterpret_cast<u32*>(to + 8 * n) = smelt_flash::rounded_pair<T>(left, right);
        }
      }
    }
}
