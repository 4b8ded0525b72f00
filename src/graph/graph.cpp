#include "graph/graph.h"

#include <algorithm>
#include <queue>

#include "base/error.h"

namespace smelt {

// --- reading ------------------------------------------------------------------------------------------------------

size_t Graph::live_nodes() const {
  return static_cast<size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const Node& n) { return n.alive; }));
}

std::vector<NodeId> Graph::topological() const {
  std::vector<int> waiting(nodes_.size(), 0);
  using Entry = std::pair<int64_t, int32_t>;  // order, id: the smallest that is ready comes first
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  size_t live = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& n = nodes_[i];
    if (!n.alive) continue;
    ++live;
    for (ValueId v : n.inputs)
      if (v != ValueId::none && value(v).producer != NodeId::none) ++waiting[i];
    if (waiting[i] == 0) ready.emplace(n.order, static_cast<int32_t>(i));
  }
  std::vector<NodeId> sorted;
  sorted.reserve(live);
  while (!ready.empty()) {
    const auto id = NodeId{ready.top().second};
    ready.pop();
    sorted.push_back(id);
    for (ValueId out : node(id).outputs) {
      if (out == ValueId::none) continue;
      for (const Use& use : readers(out))
        if (--waiting[static_cast<size_t>(use.node)] == 0) ready.emplace(node(use.node).order, index(use.node));
    }
  }
  if (sorted.size() == live) return sorted;
  std::string stuck;
  int listed = 0;
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].alive && waiting[i] > 0 && listed++ < 8) stuck += (listed > 1 ? ", " : "") + describe(*this, NodeId(i));
  fail("graph '{}' has a cycle through or before {}{}", name, stuck, listed > 8 ? ", …" : "");
}

bool Graph::is_output(ValueId v) const { return std::find(outputs_.begin(), outputs_.end(), v) != outputs_.end(); }
bool Graph::is_input(ValueId v) const { return std::find(inputs_.begin(), inputs_.end(), v) != inputs_.end(); }

NodeId Graph::producer(NodeId n, size_t i) const {
  const ValueId v = node(n).in(i);
  return v == ValueId::none ? NodeId::none : value(v).producer;
}

NodeId Graph::only_reader(ValueId v) const {
  const auto uses = readers(v);
  return uses.size() == 1 && !is_output(v) ? uses[0].node : NodeId::none;
}

ValueId Graph::find_value(std::string_view wanted) const {
  const auto it = names_.find(wanted);
  return it == names_.end() ? ValueId::none : it->second;
}

NodeId Graph::find_node(std::string_view wanted) const {
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].alive && nodes_[i].name == wanted) return NodeId(i);
  return NodeId::none;
}

const Tensor& Graph::constant(NodeId n, size_t i) const {
  static const Tensor absent;
  const ValueId v = node(n).in(i);
  return v == ValueId::none ? absent : value(v).constant;
}

// --- building and changing ----------------------------------------------------------------------------------------

ValueId Graph::add_value(std::string wanted, DType type, std::optional<SymShape> shape) {
  const auto v = ValueId(values_.size());
  values_.push_back({.name = {}, .type = type, .shape = std::move(shape)});
  readers_.emplace_back();
  rename(v, wanted.empty() ? "v" + std::to_string(index(v)) : std::move(wanted));
  return v;
}

ValueId Graph::add_constant(std::string wanted, Tensor t) {
  const ValueId v = add_value(std::move(wanted), t.type(), to_sym(t.shape()));
  mutable_value(v).constant = std::move(t);
  return v;
}

void Graph::rename(ValueId v, const std::string& wanted) {
  Value& value = mutable_value(v);
  if (value.name == wanted && !wanted.empty()) return;
  std::string unique = wanted;
  while (names_.contains(unique)) unique = wanted + "_" + std::to_string(++suffixes_[wanted]);
  if (!value.name.empty()) names_.erase(value.name);
  value.name = unique;
  names_.emplace(std::move(unique), v);
}

NodeId Graph::add_node(Node n) {
  const auto id = NodeId(nodes_.size());
  n.alive = true;
  if (n.order == 0) n.order = last_order_ + 1;
  last_order_ = std::max(last_order_, n.order);
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == ValueId::none) continue;
    Value& v = mutable_value(n.outputs[i]);
    if (v.producer != NodeId::none)
      fail("{}: output {} ('{}') has a producer already: {}", n.name, i, v.name, describe(*this, v.producer));
    v.producer = id;
    v.output = static_cast<int>(i);
  }
  for (size_t i = 0; i < n.inputs.size(); ++i)
    if (n.inputs[i] != ValueId::none) readers_[static_cast<size_t>(n.inputs[i])].push_back({id, static_cast<int>(i)});
  nodes_.push_back(std::move(n));
  return id;
}

void Graph::set_input(NodeId n, size_t i, ValueId v) {
  Node& node = edit(n);
  if (node.inputs.size() <= i) node.inputs.resize(i + 1, ValueId::none);
  const Use use{n, static_cast<int>(i)};
  if (node.inputs[i] != ValueId::none) std::erase(readers_[static_cast<size_t>(node.inputs[i])], use);
  node.inputs[i] = v;
  if (v != ValueId::none) readers_[static_cast<size_t>(v)].push_back(use);
}

void Graph::set_inputs(NodeId n, std::vector<ValueId> inputs) {
  Node& node = edit(n);
  for (size_t i = 0; i < node.inputs.size(); ++i) set_input(n, i, ValueId::none);
  node.inputs.clear();
  for (size_t i = 0; i < inputs.size(); ++i) set_input(n, i, inputs[i]);
}

void Graph::set_constant(ValueId v, Tensor t) {
  Value& value = mutable_value(v);
  if (value.producer != NodeId::none)
    fail("value '{}' is computed by {} and cannot be a constant", value.name, describe(*this, value.producer));
  value.type = t.type();
  value.shape = to_sym(t.shape());
  value.constant = std::move(t);
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  const std::vector<Use> uses = readers_[static_cast<size_t>(from)];
  for (const Use& use : uses) set_input(use.node, static_cast<size_t>(use.input), to);
  std::replace(outputs_.begin(), outputs_.end(), from, to);
}

void Graph::remove_node(NodeId n) {
  set_inputs(n, {});
  Node& node = edit(n);
  for (ValueId v : node.outputs) {
    if (v == ValueId::none) continue;
    mutable_value(v).producer = NodeId::none;
    mutable_value(v).output = 0;
  }
  node.outputs.clear();
  node.alive = false;
}

void Graph::merge_sources(NodeId to, NodeId from) {
  std::vector<int32_t>& all = edit(to).sources;
  const std::vector<int32_t>& more = node(from).sources;
  all.insert(all.end(), more.begin(), more.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

Graph clone(const Graph& g) {
  Graph copy = g;
  for (size_t i = 0; i < copy.node_count(); ++i)
    for (auto& [key, attribute] : copy.edit(NodeId(i)).attrs)
      if (auto* body = std::get_if<GraphPtr>(&attribute); body && *body) *body = std::make_shared<Graph>(clone(**body));
  return copy;
}

}  // namespace smelt
