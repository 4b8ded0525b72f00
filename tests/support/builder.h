// Builds small graphs for the tests of rewrites: every value has a type and a shape, every node a source of its own name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fuse/match/rewrite.h"
#include "graph/graph.h"

namespace smelt::fuse {

struct Builder {
  Graph g;

  ValueId input(const std::string& name, SymShape shape, DType type = DType::f32);
  ValueId constant(const std::string& name, Tensor t) { return g.add_constant(name, std::move(t)); }
  /// A constant whose values differ from element to element.
  ValueId weights(const std::string& name, const Shape& shape, DType type = DType::f32, double scale = 0.1);
  ValueId scalar(double value, DType type = DType::f32);
  ValueId ints(const std::vector<int64_t>& values);
  /// A node with one output of the given shape and type.
  ValueId node(const std::string& name, const std::string& op, std::vector<ValueId> inputs, SymShape shape,
               DType type = DType::f32, std::map<std::string, Attribute> attrs = {}, std::string_view domain = onnx_domain);

  /// With SMELT_SEEDS=FOLDER in the environment the graph, as it is then, becomes a file there: a seed for the fuzzer.
  void output(ValueId v);
  NodeId operator[](const std::string& name) const { return g.find_node(name); }
};

/// The one rewrite of the pipeline of this name, with dead code removed after it.
Ledger run_only(Graph& g, std::string_view name, const Options& options = {});

/// What a match function said: "matched", "not here", or the reason code and the node that blocked it ("extra_reader by relu").
inline std::string verdict(const Graph& g, const Outcome& o) {
  if (std::holds_alternative<Match>(o)) return "matched";
  const auto* r = std::get_if<Refusal>(&o);
  if (!r) return "not here";
  return std::string(name(r->reason)) + (r->blocker == NodeId::none ? "" : " by " + g.node(r->blocker).name);
}

/// The same of a rewrite's match function at the node of this name.
inline std::string verdict(const Builder& b, Outcome (*match)(const Graph&, NodeId), const std::string& node) {
  return verdict(b.g, match(b.g, b[node]));
}

/// Applies a match that must be there, and checks the graph.
inline NodeId apply_match(Graph& g, const Outcome& o) {
  const NodeId n = std::get<Match>(o).apply(g);
  verify(g);
  return n;
}
inline NodeId apply_match(Builder& b, Outcome (*match)(const Graph&, NodeId), const std::string& node) {
  return apply_match(b.g, match(b.g, b[node]));
}

/// Live nodes of an operator.
size_t count(const Graph& g, std::string_view op, std::string_view domain = onnx_domain);

}  // namespace smelt::fuse
