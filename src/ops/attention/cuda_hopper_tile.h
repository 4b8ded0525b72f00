// How Hopper's attention kernel shares a problem among blocks and groups of warps, and which ways are worth a try.
#pragma once

#include <string>
#include <vector>

#include "ops/attention/cuda_attention.h"

namespace smelt::ops {

/// Columns of a line of shared memory. Of 32 where no depth has more: half of a longer one would be zeros, which are copied as well.
int64_t hopper_attention_columns(const AttentionShape& s);

/// The constants of HopperAttention (src/kernels/attention/hopper.cuh).
struct HopperAttentionTile {
  int64_t groups = 2;  // of four warps, 64 rows each
  int64_t keys = 128;  // a tile
  int64_t stages = 2;
  int64_t blocks = 1;        // that a multiprocessor holds at once
  bool persistent = false;   // a block goes over the rows of several
  bool shared_rows = false;  // groups have the same 64 rows, and the tiles of keys in turn

  /// Groups issue their products one after the other, with registers that the copying warps leave them.
  bool in_turn() const { return groups > 1 && !shared_rows; }
  int64_t rows() const { return shared_rows ? 64 : 64 * groups; }
  /// Of a multiplying thread by setmaxnreg; 0: as launched.
  int64_t registers() const { return !in_turn() ? 0 : groups == 2 ? 240 : 160; }
  int64_t threads() const { return 128 * groups + (registers() > 0 ? 128 : 32); }
  int64_t row_tiles_of(const AttentionShape& s) const;
  int64_t blocks_of(const AttentionShape& s) const;  // of the grid
  int64_t shared_bytes(const AttentionShape& s) const;
  /// An upper guess at what a multiplying thread holds.
  int64_t registers_held(const AttentionShape& s, MaskKind mask) const;
  double estimate_us(const AttentionShape& s, MaskKind mask, const Gpu& gpu) const;
  /// "m128 n128 s2", "b2" behind it where a multiprocessor holds several, "k2" where so many groups share rows, "p" where a block goes
  /// over several.
  std::string config() const;
  bool operator==(const HopperAttentionTile&) const = default;
};

/// The tiles that fit the GPU and the problem.
std::vector<HopperAttentionTile> hopper_attention_tiles(const AttentionShape& s, MaskKind mask, const Gpu& gpu);

}  // namespace smelt::ops
