#include "graph/inline.h"

#include <fmt/core.h>

#include <utility>

#include "base/error.h"

namespace smelt {
namespace {

/// The shape without its symbols.
std::optional<SymShape> numbers_of(const std::optional<SymShape>& shape) {
  if (!shape) return std::nullopt;
  SymShape numbers;
  for (const Dim& d : *shape) numbers.push_back(d.known() ? d : Dim());
  return numbers;
}

/// Copies of a body's values and nodes in the graph around it.
class Inliner {
 public:
  Inliner(Graph& g, const Graph& body)
      : g_(g), body_(body), values_(body.value_count(), ValueId::none), sources_(body.sources().size(), -1) {}

  void is(ValueId inner, ValueId outer) { at(inner) = outer; }
  bool is_mapped(ValueId inner) const { return values_[static_cast<size_t>(index(inner))] != ValueId::none; }

  ValueId value(ValueId inner) {
    if (inner == ValueId::none) return ValueId::none;
    ValueId& outer = at(inner);
    if (outer != ValueId::none) return outer;
    const Value& v = body_.value(inner);
    outer = v.is_constant() ? g_.add_constant(v.name, v.constant) : g_.add_value(v.name, v.type, numbers_of(v.shape));
    return outer;
  }

  /// `order`: that of the node which it stands for, with others.
  void add(const Node& inner, int64_t order) {
    Node node = inner;
    for (auto* list : {&node.inputs, &node.outputs})
      for (ValueId& v : *list) v = value(v);
    for (int32_t& s : node.sources) s = source(s);
    node.order = order;
    g_.add_node(std::move(node));
  }

 private:
  ValueId& at(ValueId inner) { return values_[static_cast<size_t>(index(inner))]; }

  int32_t source(int32_t inner) {
    int32_t& outer = sources_[static_cast<size_t>(inner)];
    if (outer < 0) {
      outer = static_cast<int32_t>(g_.sources().size());
      g_.sources().push_back(body_.sources()[static_cast<size_t>(inner)]);
    }
    return outer;
  }

  Graph& g_;
  const Graph& body_;
  std::vector<ValueId> values_;
  std::vector<int32_t> sources_;
};

const char* branch_name(bool taken) { return taken ? "then_branch" : "else_branch"; }

}  // namespace

std::optional<std::string> cannot_inline(const Graph& g, NodeId n, bool taken) {
  const Node& call = g.node(n);
  const char* branch = branch_name(taken);
  const GraphPtr body = call.is("If") ? call.get_graph(branch) : nullptr;
  if (!body) return fmt::format("{} is no If with a {}", describe(g, n), branch);
  if (call.inputs.size() != 1 + body->inputs().size())
    return fmt::format("{} captures {} values, its {} takes {}", describe(g, n), call.inputs.size() - 1, branch,
                       body->inputs().size());
  if (call.outputs.size() != body->outputs().size())
    return fmt::format("{} has {} outputs, its {} has {}", describe(g, n), call.outputs.size(), branch, body->outputs().size());
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i] == ValueId::none) continue;
    const DType outer = g.value(call.outputs[i]).type, inner = body->value(body->outputs()[i]).type;
    if (outer != inner)
      return fmt::format("output {} of {} has type {}, that of its {} {}", i, describe(g, n), name(outer), branch, name(inner));
  }
  return std::nullopt;
}

void inline_branch(Graph& g, NodeId n, bool taken) {
  const Node call = g.node(n);
  if (const auto no = cannot_inline(g, n, taken)) fail("{}", *no);
  const GraphPtr body = call.get_graph(branch_name(taken));

  Inliner inliner(g, *body);
  for (size_t i = 0; i < body->inputs().size(); ++i) inliner.is(body->inputs()[i], call.inputs[1 + i]);
  g.remove_node(n);
  std::vector<std::pair<ValueId, ValueId>> copies;  // a captured value, a constant, or what is another output already
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const ValueId outer = call.outputs[i], inner = body->outputs()[i];
    if (outer == ValueId::none) continue;
    if (const auto shape = numbers_of(body->value(inner).shape)) {
      const std::optional<SymShape>& known = g.value(outer).shape;
      if (!known || is_static(*shape) || known->size() != shape->size()) g.set_shape(outer, shape);
    }
    if (inliner.is_mapped(inner) || body->value(inner).is_constant())
      copies.emplace_back(inner, outer);
    else
      inliner.is(inner, outer);
  }
  for (NodeId id : body->topological()) inliner.add(body->node(id), call.order);
  for (const auto& [inner, outer] : copies) {
    Node copy;
    copy.op = "Identity";
    copy.name = call.name;
    copy.opset = call.opset;
    copy.inputs = {inliner.value(inner)};
    copy.outputs = {outer};
    copy.sources = call.sources;
    copy.order = call.order;
    g.add_node(std::move(copy));
  }
}

}  // namespace smelt
