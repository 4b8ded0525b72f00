// The product that a value comes of.
#pragma once

#include "graph/graph.h"

namespace smelt::fuse {

/// The matrix product or convolution whose result reaches v through pointwise nodes that alone read it; none when there is none.
NodeId product_behind(const Graph& g, ValueId v);

}  // namespace smelt::fuse
