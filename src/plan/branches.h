// Ifs whose condition follows from the shapes of the inputs: their branches become part of the graph around them, so that they
// are fused and planned with it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "smelt/session.h"

namespace smelt::plan {

/// Ifs by name, and whether each takes its then_branch, in the order in which they were decided.
using Decisions = std::vector<std::pair<std::string, bool>>;

struct DecidedGraph {
  Graph graph;
  Decisions decisions;
};

/// Whether the options have such branches inlined: not without rewrites, and not where inline_if is left out.
bool inlines_decided(const Options& options);

/// A copy of the graph with the branches in the place of all Ifs, nested ones too, whose condition is known for inputs of these
/// shapes, and for these values of inputs where they are given: as many as inputs, valid where known, or none. Nothing where there
/// is no such If. Bodies of what stays are left as they are.
std::optional<DecidedGraph> inline_decided(const Graph& g, std::span<const Shape> inputs, std::span<const Tensor> values = {});

}  // namespace smelt::plan
