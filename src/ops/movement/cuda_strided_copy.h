// A strided window copied to another on a GPU: the kernel behind Reorder, Transpose, Slice, Expand and Split there.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

/// Element (i0, i1, …) of `extents` goes from `offset` + Σ i · from to Σ i · to, in elements.
struct StridedMove {
  Shape extents, from, to;
  int64_t offset = 0;
  size_t output = 0;  // of the node; its input is input 0
};

/// Adds the candidates that run all of a node's moves: by elements or vectors in the output's order ("walk w8"), and through
/// tiles in shared memory where source and destination are contiguous along different axes ("tile").
void offer_moves_cuda(const BoundNode& b, std::vector<StridedMove> moves, const Gpu& gpu, Offer& offer);

}  // namespace smelt::ops
