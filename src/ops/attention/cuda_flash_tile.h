// How the blocks and warps of the attention kernel on tensor cores share a problem, and which ways are worth a try.
#pragma once

#include <string>
#include <vector>

#include "ops/attention/cuda_attention.h"

namespace smelt::ops {

/// The template arguments of Flash and flash_block (src/kernels/attention/).
struct FlashTile {
  int64_t row_tiles = 1;  // of 16 rows, a warp
  int64_t row_warps = 4;
  int64_t key_warps = 1;  // that share the rows
  int64_t keys = 64;      // a tile
  int64_t stages = 2;
  bool held = true;  // queries stay in registers
  MaskKind mask = MaskKind::none;
  bool packed = false;   // the rows of a block are those of all heads that read the same keys
  bool mapped = false;   // a first kernel says which tiles a mask hides
  int64_t splits = 1;    // of the keys, over blocks
  bool cluster = false;  // which are a cluster and add up by themselves
  double estimate_us = 0;

  int64_t threads() const { return 32 * row_warps * key_warps; }
  int64_t rows() const { return 16 * row_tiles * row_warps; }
  /// Tiles of rows that a pair (batch, head, or key head where packed) has.
  int64_t row_tiles_of(const AttentionShape& s) const;
  int64_t blocks(const AttentionShape& s) const;
  int64_t shared_bytes(const AttentionShape& s) const;
  /// An upper guess at a thread's registers.
  int64_t registers(const AttentionShape& s) const;
  /// Blocks that the compiler is told to leave registers for: four of 128 threads where the guess is a little above 128, else one
  /// (and it takes what it wants).
  int64_t least_blocks(const AttentionShape& s) const;
  /// "m128 n64 w4x1 s2", then "packed", "map" and "split 8" or "cluster 8" where they hold.
  std::string config() const;
};

/// The tiles that fit the GPU and the problem. `maps`: a map may be made of its mask.
std::vector<FlashTile> flash_tiles(const AttentionCuda& p, MaskKind mask, bool maps, const Gpu& gpu);

}  // namespace smelt::ops
