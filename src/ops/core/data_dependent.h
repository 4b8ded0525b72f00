// Nodes whose outputs' extents depend on data, as kernels: their results lie in memory for the most that there can be, and how
// many there are is counted where they are made.
//
//   bound outputs   the node's, each of the largest shape that it can have, then one more: the count, i64 [1]
//   the kernel      writes the count, and each output densely in the shape that the count gives it, from the beginning of its
//   memory
//
// The executor ends a recording behind such a kernel, waits for the count, and plans what follows for the shapes found
// (src/run/segment_state.h).
#pragma once

#include <vector>

#include "ops/core/tactic.h"

namespace smelt::ops {

/// The largest shape that an output can have; its extent along `axis` is the count. `type` undefined: left out. axis -1: it has
/// this shape whatever is found.
struct AtMost {
  DType type = DType::undefined;
  Shape shape;
  int64_t axis = -1;
};

/// Memory for results that are not there is not taken beyond this, in bytes an output: such nodes run on the host.
inline constexpr int64_t largest_at_most = int64_t{1} << 30;

/// By output of the node, where a kernel can run it in this way: NonZero, Compress, NonMaxSuppression and Unique over all
/// elements, of types that the GPU's kernels know. Empty elsewhere. `inputs` are known shapes, `value` where it is constant.
std::vector<AtMost> outputs_at_most(const Node& node, std::span<const TensorDesc> inputs);

/// The same for inputs as they are bound.
std::vector<AtMost> outputs_at_most(const Node& node, std::span<const BoundTensor> inputs);

/// Whether the processor has a kernel for such a node, beside the reference.
bool is_found_on_processor(const Node& node);

/// The shape for this count. Throws Error for a count outside of 0 … shape[axis].
Shape found_shape(const AtMost& output, int64_t count);

/// A node's outputs as a kernel is bound to them.
std::vector<BoundTensor> bound_at_most(std::span<const AtMost> outputs);

/// Whether a node that outputs_at_most knows is bound in this way.
inline bool is_bound_at_most(const BoundNode& b) { return b.outputs.size() == b.node->outputs.size() + 1; }

}  // namespace smelt::ops
