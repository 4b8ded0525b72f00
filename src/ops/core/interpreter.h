// The graph interpreter under ops::evaluate: walks the nodes in order and frees what nothing reads any more. What runs a
// node, and what a constant looks like to it, are the caller's, so that the float64 evaluator shares the walk.
#pragma once

#include <functional>

#include "ops/core/operator.h"

namespace smelt::ops {

using RunGraph = std::function<std::vector<Tensor>(const Graph&, std::span<const Tensor>)>;

/// Evaluates one node: infer, `adjust` of what infer said where given, allocate, reference. `run_graph` runs its subgraphs.
std::vector<Tensor> run_reference(const Node& node, std::span<const Tensor> inputs, const RunGraph& run_graph,
                                  const std::function<void(std::span<TensorDesc>)>& adjust = {});

struct Interpreter {
  /// Runs one node; must return node.outputs.size() tensors, not valid() where an output is left out.
  std::function<std::vector<Tensor>(const Node&, std::span<const Tensor>)> run_node;
  /// The tensor to use for a constant; called at each read, so that a converted copy lives only as long as its reader.
  std::function<Tensor(const Tensor&)> constant;
};

/// Interprets `g` on `inputs` (in the order of g.inputs()) and returns g.outputs(). Throws Error when the number of
/// inputs differs from the graph's, and what run_node throws.
std::vector<Tensor> interpret(const Graph& g, std::span<const Tensor> inputs, const Interpreter& how);

}  // namespace smelt::ops
