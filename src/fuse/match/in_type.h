// Nodes that compute in another type than the model's.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace smelt::fuse {

/// Gives the nodes' values of the types that `replaced` names the type `to`, their constants too. Casts stand where other nodes hand
/// values in or read them, and where they are the graph's results, which keep their names and types.
void compute_in(Graph& g, const std::vector<NodeId>& nodes, bool (*replaced)(DType), DType to);

}  // namespace smelt::fuse
