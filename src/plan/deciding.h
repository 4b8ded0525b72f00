// What of a graph's inputs decides its Ifs before a run begins: their shapes, or the values of booleans.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace smelt::plan {

struct Deciding {
  bool shapes = false;               // those of the inputs may decide an If
  std::vector<size_t> inputs;        // booleans of one element whose values may: exporters' `use_cache_branch`
  static constexpr size_t most = 4;  // of these; each doubles the forms that a graph may take
};

/// Graphs among a node's attributes.
std::vector<GraphPtr> bodies_of(const Node& node);

/// By the nodes between an If's condition and the inputs. Shapes count as deciding wherever that is not certain, as for Ifs within
/// branches; values do where nothing else of the run is part of the condition.
Deciding what_decides(const Graph& g);

}  // namespace smelt::plan
