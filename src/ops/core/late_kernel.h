// Kernels that are chosen in a run, once values are there that the extents of a node's outputs follow from (run/late_kernels.h).
#pragma once

#include "graph/graph.h"

namespace smelt::ops {

/// Whether the processor has one for such a node, beside the reference.
bool has_late_kernel(const Node& node);

}  // namespace smelt::ops
