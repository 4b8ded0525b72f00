// Finds the tiles of an attention's scores that a run-time mask hides, and those that it leaves as they are.
// attention/flash_block.cuh skips the former and does not read the mask of the latter.
//
//   map (batches, heads, groups of MapRows rows, key tiles)    MapBits of all of a tile's scores
//
// A score is hidden where Scores is minus infinity. It is hidden too where Scores is at most -1e30 and another key of the row is
// open, beside which its weight is 0; a row of such scores alone spreads its weight over all. The host makes sure that Scores
// only adds to a score or selects, so that three probes tell which.
//
// Launch: (groups, maps) blocks of 32 MapRows threads, a warp a row; MapRows x key tiles bytes of dynamic shared memory.
#pragma once

#include "attention/problem.cuh"
#include "attention/scores.cuh"
#include "common/warp.cuh"
#include "kernels/attention/map.h"

constexpr int MapRows = 16;
/// A tile with neither map_open nor map_scored adds nothing.
enum MapBits : u32 { map_open = 1, map_scored = 2, map_low = 4, map_hidden = 8 };

template <int Keys, class Scores, int Operands>
__device__ __forceinline__ void map_tiles(const WithScores<MapArgs, Operands>& args) {
  const MapArgs& a = args.args;
  Scores scores(args.operands);
  extern __shared__ __align__(16) u8 seen[];                                         // (MapRows, tiles)
  constexpr int together = 4;                                                        // tiles, so that their loads are in flight
  const u32 tiles = (a.keys + Keys - 1) / Keys, lane = threadIdx.x % 32, r = threadIdx.x / 32, i = blockIdx.x * MapRows + r;
  scores.seek(blockIdx.y / a.heads, blockIdx.y % a.heads);
  u8* const row = seen + r * tiles;                                                  // (tiles)
  bool open = false;
  for (u32 begin = 0; begin < tiles; begin += together) {
    u32 bits[together] = {};                                                         // (together) of the tiles
#pragma unroll
    for (int t = 0; t < together; ++t)
#pragma unroll
      for (int c = 0; c < Keys; c += 32) {
        const u32 j = (begin + t) * Keys + c + lane;
        if (i >= a.rows || j >= a.keys) continue;
        const float below = scores.at(i, j, -1.f), at = scores.at(i, j, 0.f), above = scores.at(i, j, 1.f);
        const bool lowest = at == minus_infinity && below == at && above == at;
        const bool low = at <= -1e30f && below <= -1e30f && above <= -1e30f;
        const bool same = below == -1.f && at == 0.f && above == 1.f;
        bits[t] |= same ? map_open : lowest ? map_hidden : low ? map_low : map_scored;
      }
#pragma unroll
    for (int t = 0; t < together; ++t) {
      const u32 all = __reduce_or_sync(full_warp, bits[t]);
      open = open || (all & map_open);
      if (lane == 0 && begin + t < tiles) row[begin + t] = static_cast<u8>(all);
    }
  }
  __syncwarp();
  if (!open)
    for (u32 t = lane; t < tiles; t += 32)
      if (row[t] & map_low) row[t] |= map_scored;
  __syncthreads();
  for (u32 t = threadIdx.x; t < tiles; t += blockDim.x) {
    u32 bits = 0;
#pragma unroll
    for (int n = 0; n < MapRows; ++n) bits |= seen[n * tiles + t];
    a.map[(static_cast<u64>(blockIdx.y) * gridDim.x + blockIdx.x) * tiles + t] = static_cast<u8>(bits);
  }
}
