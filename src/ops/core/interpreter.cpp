#include "ops/core/interpreter.h"

#include "base/error.h"

namespace smelt::ops {
namespace {

/// How often each value is still to be read: by nodes, and by the graph's outputs.
std::vector<int> count_reads(const Graph& g, std::span<const NodeId> order) {
  std::vector<int> reads(g.value_count(), 0);
  for (NodeId n : order) {
    for (ValueId v : g.node(n).inputs) {
      if (v != ValueId::none) ++reads[static_cast<size_t>(index(v))];
    }
  }
  for (ValueId v : g.outputs()) ++reads[static_cast<size_t>(index(v))];
  return reads;
}

}  // namespace

std::vector<Tensor> interpret(const Graph& g, std::span<const Tensor> inputs, const Interpreter& how) {
  if (inputs.size() != g.inputs().size()) {
    fail("graph '{}' has {} inputs, {} tensors were given", g.name, g.inputs().size(), inputs.size());
  }
  const std::vector<NodeId> order = g.topological();
  std::vector<int> reads = count_reads(g, order);
  std::vector<Tensor> live(g.value_count());
  for (size_t i = 0; i < inputs.size(); ++i) live[static_cast<size_t>(index(g.inputs()[i]))] = inputs[i];

  auto read = [&](ValueId v) -> Tensor {
    const Value& value = g.value(v);
    const size_t at = static_cast<size_t>(index(v));
    Tensor t = value.is_constant() ? how.constant(value.constant) : live[at];
    if (--reads[at] == 0) live[at] = Tensor();
    return t;
  };

  for (NodeId n : order) {
    const Node& node = g.node(n);
    std::vector<Tensor> results;
    {
      std::vector<Tensor> args;
      args.reserve(node.inputs.size());
      for (ValueId v : node.inputs) args.push_back(v == ValueId::none ? Tensor() : read(v));
      results = how.run_node(node, args);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == ValueId::none) continue;
      const size_t at = static_cast<size_t>(index(node.outputs[i]));
      if (reads[at] > 0) live[at] = std::move(results[i]);
    }
  }
  std::vector<Tensor> outputs;
  for (ValueId v : g.outputs()) {
    outputs.push_back(read(v));
    if (!outputs.back().valid()) fail("graph '{}': output '{}' has no value", g.name, g.value(v).name);
  }
  return outputs;
}

std::vector<Tensor> evaluate(const Graph& g, std::span<const Tensor> inputs) {
  const Interpreter plain{[](const Node& node, std::span<const Tensor> in) { return evaluate(node, in); },
                          [](const Tensor& t) { return t; }};
  return interpret(g, inputs, plain);
}

}  // namespace smelt::ops
