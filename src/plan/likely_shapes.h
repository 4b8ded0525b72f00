// Extents that a model with symbolic ones may well be run with.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "smelt/shape.h"

namespace smelt::plan {

/// Shapes of the graph's inputs to try, one after the other until the graph can be planned for one: symbols that stand first in a
/// shape, as a batch does, are 1, others the same moderate number. Empty where every extent is known, or an input's rank is not.
std::vector<std::vector<Shape>> likely_shapes(const Graph& g);

}  // namespace smelt::plan
