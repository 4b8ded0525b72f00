#include <unordered_set>

#include "base/error.h"
#include "import/stages.h"

namespace smelt::importer {

namespace {

void plain_domain(onnx::NodeProto& node) {
  if (node.domain() == "ai.onnx") node.set_domain("");
}

template <class Proto> void plain_imports(Proto& proto) {
  for (auto& o : *proto.mutable_opset_import())
    if (o.domain() == "ai.onnx") o.set_domain("");
}

}  // namespace

void normalize(Loaded& model) {
  plain_imports(model.proto);
  for (auto& f : *model.proto.mutable_functions()) plain_imports(f);
  for_each_node(model.proto, plain_domain);

  auto& graph = *model.proto.mutable_graph();
  std::unordered_set<std::string> initialized;
  for (const auto& t : graph.initializer()) initialized.insert(t.name());
  auto& inputs = *graph.mutable_input();
  for (int i = inputs.size() - 1; i >= 0; --i)
    if (initialized.contains(inputs[i].name())) inputs.DeleteSubrange(i, 1);
  // From IR 4 on inference knows initializers that are no inputs.
  if (model.proto.ir_version() < 4) model.proto.set_ir_version(4);

  std::unordered_set<std::string> taken;
  for_each_graph(graph, [&](onnx::GraphProto& g) {
    for (const auto& n : g.node()) taken.insert(n.name());
  });
  int64_t unnamed = 0;
  for_each_graph(graph, [&](onnx::GraphProto& g) {
    for (auto& n : *g.mutable_node()) {
      while (n.name().empty()) {
        std::string name = n.op_type() + "_" + std::to_string(unnamed++);
        if (taken.insert(name).second) n.set_name(std::move(name));
      }
      auto sources = plan_sources(n);
      if (!sources) sources = {SourceNode{n.name(), n.op_type(), scopes_of(n)}};
      std::string indices;
      for (auto& source : *sources) {
        indices += (indices.empty() ? "" : ",") + std::to_string(model.sources.size());
        model.sources.push_back(std::move(source));
      }
      set_metadata(n, source_key, indices);
    }
  });
}

}  // namespace smelt::importer
