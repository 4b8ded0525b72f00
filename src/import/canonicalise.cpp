// One spelling for what a file may write in several ways: domains, names of nodes, and which inputs are constants.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "import/stages.h"

namespace smelt::importer {

namespace {

std::string plain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

/// One entry a domain. `function`: whose; empty for the model.
template <class Proto> void plain_imports(Proto& proto, const std::string& function) {
  auto& imports = *proto.mutable_opset_import();
  std::map<std::string_view, int64_t> versions;
  for (int i = 0; i < imports.size(); ++i) {
    auto& o = imports[i];
    if (o.domain() == "ai.onnx") o.set_domain("");
    const auto [at, fresh] = versions.try_emplace(o.domain(), o.version());
    if (fresh) continue;
    if (at->second != o.version())
      fail("{} imports the operators of domain '{}' twice, of version {} and {}",
           function.empty() ? "the model" : "function '" + function + "'", o.domain(), at->second, o.version());
    imports.DeleteSubrange(i--, 1);
  }
}

/// Drops the functions that nothing calls, which need not be ones that smelt can run.
void drop_uncalled(onnx::ModelProto& proto) {
  using Key = std::tuple<std::string, std::string, std::string>;
  std::map<Key, const onnx::FunctionProto*> left;
  for (const auto& f : proto.functions())
    if (!left.try_emplace({plain(f.domain()), f.name(), f.overload()}, &f).second)
      fail("the function {}{}{} is there twice", f.domain(), f.domain().empty() ? "" : ":", f.name());
  if (left.empty()) return;
  std::set<const onnx::FunctionProto*> called;
  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
  std::vector<const Nodes*> waiting{&proto.graph().node()};  // a list: functions can call each other deeper than a stack is
  while (!waiting.empty()) {
    const Nodes& nodes = *waiting.back();
    waiting.pop_back();
    for (const auto& n : nodes) {
      for (const auto& a : n.attribute()) {
        if (a.has_g()) waiting.push_back(&a.g().node());
        for (const auto& g : a.graphs()) waiting.push_back(&g.node());
      }
      const auto it = left.find({plain(n.domain()), n.op_type(), n.overload()});
      if (it == left.end()) continue;
      called.insert(it->second);
      waiting.push_back(&it->second->node());
      left.erase(it);
    }
  }
  auto& functions = *proto.mutable_functions();
  functions.erase(std::remove_if(functions.begin(), functions.end(), [&](const auto& f) { return !called.contains(&f); }),
                  functions.end());
}

/// The names that a node reads, its bodies' outer ones among them.
std::vector<std::string> reads(const onnx::NodeProto& n) {
  std::vector<std::string> names(n.input().begin(), n.input().end());
  const auto body = [&](const onnx::GraphProto& g) {
    for (auto& name : free_names(g)) names.push_back(std::move(name));
  };
  for (const auto& a : n.attribute()) {
    if (a.has_g()) body(a.g());
    for (const auto& g : a.graphs()) body(g);
  }
  return names;
}

/// Whether every node comes after those whose outputs it reads.
bool is_sorted(const onnx::GraphProto& g) {
  std::unordered_set<std::string> later;
  for (const auto& n : g.node()) later.insert(n.output().begin(), n.output().end());
  later.erase("");
  for (const auto& n : g.node()) {
    for (const auto& name : reads(n))
      if (later.contains(name)) return false;
    for (const auto& name : n.output()) later.erase(name);
  }
  return true;
}

/// The nodes in an order in which each can run: the first that is ready goes first. Nodes in a circle stay behind, for the checker
/// to name.
void sort(onnx::GraphProto& g) {
  const int count = g.node_size();
  std::unordered_map<std::string, int> maker;
  for (int i = 0; i < count; ++i)
    for (const auto& name : g.node(i).output())
      if (!name.empty()) maker.try_emplace(name, i);
  std::vector<std::vector<int>> readers(static_cast<size_t>(count));
  std::vector<int> waits(static_cast<size_t>(count));
  std::set<int> ready;
  for (int i = 0; i < count; ++i) {
    for (const auto& name : reads(g.node(i)))
      if (const auto at = maker.find(name); at != maker.end() && ++waits[static_cast<size_t>(i)])
        readers[static_cast<size_t>(at->second)].push_back(i);
    if (waits[static_cast<size_t>(i)] == 0) ready.insert(i);
  }
  NodesBeside sorted(g);
  const auto take = [&](int i) { (*sorted).Add()->Swap(g.mutable_node(i)); };
  std::vector<bool> taken(static_cast<size_t>(count));
  while (!ready.empty()) {
    const int i = *ready.begin();
    ready.erase(ready.begin());
    taken[static_cast<size_t>(i)] = true;
    take(i);
    for (const int r : readers[static_cast<size_t>(i)])
      if (--waits[static_cast<size_t>(r)] == 0) ready.insert(r);
  }
  for (int i = 0; i < count; ++i)
    if (!taken[static_cast<size_t>(i)]) take(i);
  (*sorted).Swap(g.mutable_node());
}

}  // namespace

void sort_nodes(Loaded& model) {
  for_each_graph(*model.proto.mutable_graph(), [](onnx::GraphProto& g) {
    if (!is_sorted(g)) sort(g);
  });
}

void forget_unknown_dimensions(Loaded& model) {
  const auto forget = [](auto& values) {
    for (auto& v : values) {
      if (!v.type().has_tensor_type() || !v.type().tensor_type().has_shape()) continue;  // asking for a shape would make one
      for (auto& d : *v.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
        if ((d.has_dim_value() && d.dim_value() < 0) || (d.has_dim_param() && d.dim_param() == "?")) d.clear_value();
    }
  };
  for_each_graph(*model.proto.mutable_graph(), [&](onnx::GraphProto& g) {
    for (auto* values : {g.mutable_input(), g.mutable_output(), g.mutable_value_info()}) forget(*values);
  });
}

void canonicalise_domains(Loaded& model) {
  drop_uncalled(model.proto);
  plain_imports(model.proto, "");
  for (auto& f : *model.proto.mutable_functions()) plain_imports(f, f.name());
  for_each_node(model.proto, [](onnx::NodeProto& n) {
    if (n.domain() == "ai.onnx") n.set_domain("");
  });
}

void canonicalise_graph(Loaded& model) {
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
