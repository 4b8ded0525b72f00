// The constants and the argument of attention/hopper.cuh.
#pragma once

#include "kernels/attention/problem.h"
#include "kernels/common/swizzle.h"
#include "kernels/common/tensor_map.h"

namespace smelt::kernels {

struct HopperAttentionConfig {
  int depth, value_depth;
  int groups;            // of four warps, 64 rows of queries each
  int keys, stages;      // of a tile of keys, a multiple of 16; tiles in flight
  int registers;         // of a multiplying thread by setmaxnreg; 0: as launched
  bool persistent;       // a block goes over several blocks' rows
  bool shared_rows;      // groups have the same rows, and the keys in turn; else they issue their products one after the other
  int columns;           // of a line of shared memory: 64, or 32, where no depth has more
};

constexpr int hopper_attention_rows = 64;   // of a group

/// Bytes from a group's chunk of y in shared memory, lines of Columns, to columns 8 c + 2 (lane % 4) and the next of row
/// 16 warp + lane / 4 + 8 r.
template <int Columns> SMELT_SHARED constexpr u32 hopper_attention_result(u32 warp, u32 lane, u32 r, u32 c) {
  return swizzled<2 * Columns>(16 * warp + lane / 4 + 8 * r, c) + 4 * (lane % 4);
}

/// Maps of [batch, heads, rows, columns]; boxes of a line's columns by a group's rows (q, y), or a tile's keys.
struct HopperAttentionArgs {
  TensorMap q, k, v, y;
  u32 pairs, row_tiles;  // pairs: (batch, head)
  u32 blocks;            // pairs x row_tiles
  u32 heads, group;      // group: heads that read the same keys
  u32 queries, keys;
  i32 offset;            // causal: query i sees keys up to i + offset
  u32 nan_guard;
  float scale, factor;   // the scores', positive but where a program changes them; times log2e
};
static_assert(sizeof(HopperAttentionArgs) == 640);

}  // namespace smelt::kernels
