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
  /// `shapes`: what the body says of its values' shapes holds.
  Inliner(Graph& g, const Graph& body, bool shapes = true)
      : g_(g), body_(body), shapes_(shapes), values_(body.value_count(), ValueId::none), sources_(body.sources().size(), -1) {}

  void is(ValueId inner, ValueId outer) { at(inner) = outer; }
  bool is_mapped(ValueId inner) const { return values_[static_cast<size_t>(index(inner))] != ValueId::none; }

  ValueId value(ValueId inner) {
    if (inner == ValueId::none) return ValueId::none;
    ValueId& outer = at(inner);
    if (outer != ValueId::none) return outer;
    const Value& v = body_.value(inner);
    outer = v.is_constant() ? g_.add_constant(v.name, v.constant)
                            : g_.add_value(v.name, v.type, shapes_ ? numbers_of(v.shape) : std::nullopt);
    return outer;
  }

  /// Forgets what values are, but for constants, whose copies all share.
  void begin() {
    for (size_t i = 0; i < values_.size(); ++i)
      if (!body_.value(static_cast<ValueId>(i)).is_constant()) values_[i] = ValueId::none;
  }

  /// `order`: that of the node which it stands for, with others. `turn`: goes behind its name.
  void add(const Node& inner, int64_t order, const std::string& turn = "") {
    Node node = inner;
    if (!node.name.empty()) node.name += turn;
    for (auto& [key, attribute] : node.attrs)  // bodies are changed where they are
      if (auto* graph = std::get_if<GraphPtr>(&attribute); graph && *graph && !turn.empty())
        *graph = std::make_shared<Graph>(clone(**graph));
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
  bool shapes_;
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

namespace {

/// A number in the shape of one element that the body declares for its input: exporters write [1] too.
Tensor one_element(const Graph& body, size_t input, const Tensor& scalar) {
  const auto& s = body.value(body.inputs()[input]).shape;
  return s && s->size() == 1 ? scalar.reshaped({1}) : scalar;
}

/// Adds a node that stands for the loop, as others do.
void add_beside(Graph& g, const Node& call, std::string op, std::map<std::string, Attribute> attrs, std::vector<ValueId> inputs,
                ValueId output) {
  Node node{.op = std::move(op), .name = call.name, .opset = call.opset, .inputs = std::move(inputs), .outputs = {output}};
  node.attrs = std::move(attrs);
  node.sources = call.sources;
  node.order = call.order;
  g.add_node(std::move(node));
}

}  // namespace

void inline_turns(Graph& g, NodeId n, int64_t turns) {
  const Node call = g.node(n);
  const GraphPtr body = call.get_graph("body");
  const size_t states = call.inputs.size() - 2 - static_cast<size_t>(call.get_int("captured", 0));
  const std::vector<ValueId>&inner_in = body->inputs(), &inner_out = body->outputs();
  g.remove_node(n);
  const ValueId go = g.add_constant(call.name + "/go", one_element(*body, 1, Tensor::scalar(true)));
  const ValueId first_axis = g.add_constant(call.name + "/axis", Tensor::of<int64_t>({1}, {0}));
  std::vector<ValueId> now(call.inputs.begin() + 2, call.inputs.begin() + 2 + static_cast<std::ptrdiff_t>(states));
  std::vector<std::vector<ValueId>> parts(call.outputs.size() - states);
  Inliner inliner(g, *body, false);  // a state may have another shape in each turn
  const std::vector<NodeId> order = body->topological();
  for (int64_t turn = 0; turn < turns; ++turn) {
    inliner.begin();
    const std::string suffix = fmt::format("/{}", turn);
    inliner.is(inner_in[0], g.add_constant(call.name + suffix, one_element(*body, 0, Tensor::scalar(turn))));
    inliner.is(inner_in[1], go);
    for (size_t s = 0; s < states; ++s) inliner.is(inner_in[2 + s], now[s]);
    for (size_t i = 2 + states; i < inner_in.size(); ++i) inliner.is(inner_in[i], call.inputs[i]);
    for (NodeId id : order) inliner.add(body->node(id), call.order, suffix);
    for (size_t s = 0; s < states; ++s) now[s] = inliner.value(inner_out[1 + s]);
    for (size_t k = 0; k < parts.size(); ++k) {
      if (call.outputs[states + k] == ValueId::none) continue;
      const ValueId part = inliner.value(inner_out[1 + states + k]);
      const ValueId row = g.add_value(g.value(part).name, g.value(part).type, std::nullopt);
      add_beside(g, call, "Unsqueeze", {}, {part, first_axis}, row);
      parts[k].push_back(row);
    }
  }
  for (size_t o = 0; o < call.outputs.size(); ++o) {
    const ValueId outer = call.outputs[o];
    if (outer == ValueId::none) continue;
    if (o < states)
      add_beside(g, call, "Identity", {}, {now[o]}, outer);
    else
      add_beside(g, call, "Concat", {{"axis", int64_t{0}}}, std::move(parts[o - states]), outer);
  }
}

}  // namespace smelt
