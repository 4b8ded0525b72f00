// What each node of a model must move and compute by itself, whatever a plan makes of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace smelt::plan {

struct NodeCost {
  std::string name, op;  // "Conv", "com.microsoft.Gelu"
  int64_t bytes = 0;     // 0 of a view
  int64_t flops = 0;
};

/// Of a graph as it was imported, for inputs of these shapes. Nodes whose values are known before a run are left out, as are those
/// behind one whose outputs' sizes a run finds out.
std::vector<NodeCost> node_costs(const Graph& g, std::span<const Shape> inputs);

}  // namespace smelt::plan
