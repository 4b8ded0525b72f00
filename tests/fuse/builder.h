// Builds small graphs for the tests of rewrites: every value has a type and a shape, every node a source of its own name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fuse/rewrite.h"
#include "graph/graph.h"

namespace smelt::fuse {

struct Builder {
  Graph g;

  ValueId input(const std::string& name, SymShape shape, DType type = DType::f32) {
    const ValueId v = g.add_value(name, type, std::move(shape));
    g.add_input(v);
    return v;
  }

  ValueId constant(const std::string& name, Tensor t) { return g.add_constant(name, std::move(t)); }

  /// A constant whose values differ from element to element.
  ValueId weights(const std::string& name, const Shape& shape, DType type = DType::f32, double scale = 0.1) {
    std::vector<float> values(static_cast<size_t>(elements(shape)));
    const double step = scale / 10;
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(step * (static_cast<int>(i * 7919 % 101) - 50));
    return g.add_constant(name, Tensor::of(shape, values).cast(type));
  }

  ValueId scalar(double value, DType type = DType::f32) { return g.add_constant("", Tensor::scalar(value).cast(type)); }
  ValueId ints(const std::vector<int64_t>& values) {
    return g.add_constant("", Tensor::of({static_cast<int64_t>(values.size())}, values));
  }

  /// A node with one output of the given shape and type.
  ValueId node(const std::string& name, const std::string& op, std::vector<ValueId> inputs, SymShape shape,
               DType type = DType::f32, std::map<std::string, Attribute> attrs = {}, std::string_view domain = onnx_domain) {
    const ValueId out = g.add_value(name + "_out", type, std::move(shape));
    g.sources().push_back({name, op, {}});
    g.add_node({.domain = std::string(domain), .op = op, .name = name, .inputs = std::move(inputs), .outputs = {out},
                .attrs = std::move(attrs), .sources = {static_cast<int32_t>(g.sources().size()) - 1}});
    return out;
  }

  void output(ValueId v) { g.add_output(v); }
  NodeId operator[](const std::string& name) const { return g.find_node(name); }
};

/// The one rewrite of the pipeline of this name, with dead code removed after it.
inline Ledger run_only(Graph& g, std::string_view name, const Options& options = {}) {
  std::vector<Rewrite> list;
  for (const Rewrite& r : pipeline())
    if (r.name == name || r.name == "dead_code") list.push_back(r);
  Ledger all = run(g, list, options), wanted;
  for (Entry& e : all)
    if (e.rewrite == name) wanted.push_back(std::move(e));
  return wanted;
}

inline size_t count(const Graph& g, std::string_view op, std::string_view domain = onnx_domain) {
  size_t n = 0;
  for (size_t i = 0; i < g.node_count(); ++i) n += g.node(NodeId(i)).alive && g.node(NodeId(i)).is(op, domain);
  return n;
}

}  // namespace smelt::fuse
