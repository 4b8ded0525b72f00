// The constants and the argument of attention/flash_block.cuh and attention/combine.cuh.
#pragma once

#include "kernels/attention/problem.h"

namespace smelt::kernels {

struct FlashConfig {
  int depth, value_depth;
  int row_tiles;                 // of 16 rows, a warp
  int row_warps, key_warps;      // of a block; key_warps share their rows
  int keys, stages;              // of a tile of keys; tiles in flight
  bool held_queries;             // the queries stay in registers
};

struct FlashPlan {
  u32 pairs, row_tiles, splits;  // pairs: (batch, head), or (batch, key head) where rows are packed
  i32 offset;                    // causal: query i sees keys up to i + offset
  u32 map_batch, map_head, map_groups;
  float scale, factor;           // the scores', positive but where every tile is scored; times log2e
  u32 padding;
};
static_assert(sizeof(FlashPlan) == 40);

/// T: the elements' type; void on the host.
template <class T> struct FlashArgs {
  AttentionProblem<T> problem;
  const u8* map;                 // [map's batches, map's heads, map_groups, tiles of keys]: attention/map.cuh's; null: none
  float* partial;                // [splits, rows, value_depth], then [splits, rows, 2]: attention/combine.cuh's; null: none
  FlashPlan plan;
};
static_assert(sizeof(FlashArgs<void>) == 256);

}  // namespace smelt::kernels
