// What leads to the inputs of a matrix product: scalings, transposes, repeated heads.
#pragma once

#include "fuse/match/compose.h"
#include "fuse/match/match.h"

namespace smelt::fuse {

/// An input of a product, seen through what was done to it on the way.
struct Peeled {
  ValueId value = ValueId::none;
  double scale = 1;           // product of the constant factors gone through
  bool transposed = false;    // an odd number of swaps of the last two axes
  int64_t repeats = 1;        // every head stands for this many (repeat_interleave over axis 1)
  std::vector<NodeId> nodes;  // gone through and read by nothing else
  bool alone = true;          // whether all that was gone through is
};

/// Looks through scalings by a constant and, where asked to, transposes of the last two axes.
Peeled peel_scale_and_transpose(const Graph& g, ValueId v, bool transposes = true);
/// Looks through the repetition of heads: [B, H, S, D] → [B, H, 1, S, D] → Expand or Tile → [B, H * repeats, S, D].
void peel_repeated_heads(const Graph& g, Peeled& p);

/// True when a Transpose swaps the last two axes and keeps the others.
bool swaps_last_two(const Graph& g, NodeId transpose);

}  // namespace smelt::fuse
