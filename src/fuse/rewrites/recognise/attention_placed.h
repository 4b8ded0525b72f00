// Putting an attention of two to four axes, whose product may stand transposed, in the place of its parts.
#pragma once

#include "fuse/match/match.h"

namespace smelt::fuse {

/// The change of a match: q, k and v get four axes and v is turned; the result goes the way back.
struct PlacedAttention {
  std::vector<NodeId> nodes;                      // what it replaces, in topological order
  Node fused;                                     // of q, k and v as they are, and of the result that the nodes have
  int axes = 4;                                   // of q, k, v
  bool turn_values = false, turn_result = false;  // whether their last two axes are exchanged
  NodeId operator()(Graph& g) const;
};

}  // namespace smelt::fuse
