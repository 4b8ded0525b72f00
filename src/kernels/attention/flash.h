// The constants and the plan of attention/flash_block.cuh.
#pragma once

#include "kernels/common/args.h"

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
};
static_assert(sizeof(FlashPlan) == 36);

}  // namespace smelt::kernels
