// ONNX's cases node by node: what each node is given and what the reference makes of it.
#pragma once

#include <algorithm>
#include <functional>

#include "conformance/cases.h"
#include "graph/graph.h"
#include "import/import.h"
#include "ops/core/data_dependent.h"
#include "ops/core/interpreter.h"
#include "ops/core/tactic.h"
#include "ops/cuda/gpu.h"

namespace smelt::conformance {

using Visit = std::function<void(const Node& node, std::span<const Tensor> inputs, const std::vector<Tensor>& outputs)>;

/// Calls `visit` for every node that runs in the case's data sets, those of subgraphs included, the model imported as for a GPU.
/// Throws what importing and running do.
inline void walk_nodes(const Case& c, const Visit& visit) {
  ImportOptions options;
  options.supported = [](std::string_view domain, std::string_view op) {
    return ops::find(op, domain) != nullptr && !ops::expanded_on_gpu(domain, op);
  };
  const Graph g = import_model(c.folder / "model.onnx", options);
  ops::RunGraph run;
  const ops::Interpreter how{[&](const Node& n, std::span<const Tensor> inputs) {
                               std::vector<Tensor> outputs = ops::run_reference(n, inputs, run);
                               visit(n, inputs, outputs);
                               return outputs;
                             },
                             [](const Tensor& t) { return t; }};
  run = [&](const Graph& body, std::span<const Tensor> inputs) { return ops::interpret(body, inputs, how); };
  for (const auto& entry : std::filesystem::directory_iterator(c.folder))
    if (entry.is_directory()) run(g, read_tensors(entry.path(), "input"));
}

/// Nodes whose result needs no kernel: known before the run, a view of an input, copies, or what other nodes make.
inline bool needs_no_kernel(const Node& n) {
  static constexpr std::string_view ops[] = {"Constant", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Shape",
                                             "Size",     "BitCast",  "If",      "Loop",    "Scan",      "Concat"};
  return n.domain.empty() && std::ranges::find(ops, std::string_view(n.op)) != std::end(ops);
}

/// The node as a kernel is offered it. Inputs but the first are constants, as shapes, axes and the like are in a model. What finds
/// out how many results it has is bound to memory for the most (ops/core/data_dependent.h).
inline ops::BoundNode bound_node(const Node& n, std::span<const Tensor> inputs, const std::vector<Tensor>& outputs) {
  ops::BoundNode b;
  b.node = &n;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    b.inputs.push_back(
        {t.valid() ? t.type() : DType::undefined, t.valid() ? t.shape() : Shape(), ops::Layout::plain, {}, i > 0 ? t : Tensor()});
  }
  for (const Tensor& t : outputs)
    b.outputs.push_back({t.valid() ? t.type() : DType::undefined, t.valid() ? t.shape() : Shape(), ops::Layout::plain, {}, {}});
  if (const auto most = ops::outputs_at_most(n, b.inputs); !most.empty()) b.outputs = ops::bound_at_most(most);
  return b;
}

}  // namespace smelt::conformance
