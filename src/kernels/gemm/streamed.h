// How stream-K deals the steps of K of tiles out to blocks (gemm/gemm.cuh): as the kernel has it, and as the host checks it.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// `blocks` blocks have all `steps` in turn, about as many each, and at most `of_tile`: the steps of a tile. So a block has parts of two
/// tiles at most. At least as many blocks as there are tiles, at most as many as steps.
struct StreamedSteps {
  u64 steps, blocks;
  u32 of_tile;

  /// Where a block begins among all steps.
  SMELT_SHARED u64 begin(u32 block) const { return block * steps / blocks; }
  /// The block that has a step.
  SMELT_SHARED u32 block_of(u64 step) const { return static_cast<u32>(((step + 1) * blocks - 1) / steps); }
  /// The first block with steps of a tile, and the last.
  SMELT_SHARED u32 first_block(u32 tile) const { return block_of(u64{tile} * of_tile); }
  SMELT_SHARED u32 last_block(u32 tile) const { return block_of(u64{tile} * of_tile + of_tile - 1); }
  /// Of a block's two parts of the workspace, the one that its sums of a tile go to: the second where it has a tile before.
  SMELT_SHARED u32 part(u32 tile, u32 block) const { return begin(block) < u64{tile} * of_tile ? 1 : 0; }
};

}  // namespace smelt::kernels
