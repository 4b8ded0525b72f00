// Ifs whose condition follows from the shapes of the inputs: their branches become part of the graph around them, so that they
// are fused and planned with it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
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

/// Whether the options have such branches inlined: not without rewrites, and not where inline_if is left out.
bool inlines_decided(const Options& options);

/// The forms that a graph has where shapes decide its Ifs. Each is made once: for other shapes that decide the same, only their
/// conditions are worked out. Thread-safe.
class DecidedGraphs {
 public:
  struct Form {
    Decisions decisions;
    std::shared_ptr<const Graph> graph;
  };
  /// The graph with the branches in the place of all Ifs, nested ones too, whose condition is known for inputs of these shapes, and
  /// for these values of inputs where they are given: as many as inputs, valid where known, or none. Nothing where there is no such
  /// If. Bodies of what stays are left as they are. `g`: the same one at each call.
  std::optional<Form> find(const Graph& g, std::span<const Shape> inputs, std::span<const Tensor> values = {});

 private:
  struct Made {
    std::shared_ptr<const Graph> graph;
    std::vector<NodeId> order;
  };
  std::shared_ptr<const Made> keep(const Decisions& decisions, Graph graph);

  std::mutex mutex_;
  std::map<Decisions, std::shared_ptr<const Made>> made_;
};

}  // namespace smelt::plan
