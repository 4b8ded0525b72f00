#include "graph/graph.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <queue>
#include <utility>

#include "base/error.h"

namespace smelt {
namespace {

constexpr size_t ordered_readers = 64;     // longer lists of readers lose their order when one leaves, instead of moving up
constexpr int64_t position_gap = 1 << 20;  // between nodes that are added one after the other

}  // namespace

struct Graph::Index {
  // By node and input: where the input's value lists it among its readers.
  std::vector<std::vector<int32_t>> places;
  std::vector<int32_t> output_uses;  // by value: how often it is an output
  std::vector<bool> is_input;        // by value
  // By node; right for all but those whose inputs have changed since.
  std::vector<int64_t> positions;
  std::vector<NodeId> changed;
  int64_t last_position = 0;
  std::vector<bool> sorted_sources;  // by node: its sources are in ascending order; false where nobody has looked
  // The nodes in topological order, where they have been asked for since the last change. Several threads may ask.
  std::atomic<std::shared_ptr<const std::vector<NodeId>>> sorted;

  Index() = default;
  Index(const Index& o)
      : places(o.places),
        output_uses(o.output_uses),
        is_input(o.is_input),
        positions(o.positions),
        changed(o.changed),
        last_position(o.last_position),
        sorted_sources(o.sorted_sources),
        sorted(o.sorted.load()) {}
};

Graph::Graph() = default;
Graph::~Graph() = default;
Graph::Graph(Graph&& g) noexcept = default;
Graph& Graph::operator=(Graph&& g) noexcept = default;
Graph::Graph(const Graph& g)
    : name(g.name),
      model(g.model),
      values_(g.values_),
      nodes_(g.nodes_),
      readers_(g.readers_),
      inputs_(g.inputs_),
      outputs_(g.outputs_),
      sources_(g.sources_),
      names_(g.names_),
      suffixes_(g.suffixes_),
      last_order_(g.last_order_),
      index_(g.index_ ? std::make_unique<Index>(*g.index_) : nullptr) {}
Graph& Graph::operator=(const Graph& g) {
  if (this != &g) *this = Graph(g);
  return *this;
}

Graph::Index& Graph::index() {
  if (!index_) index_ = std::make_unique<Index>();
  return *index_;
}

// --- reading ------------------------------------------------------------------------------------------------------

size_t Graph::live_nodes() const {
  return static_cast<size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const Node& n) { return n.alive; }));
}

std::vector<NodeId> Graph::topological() const {
  if (!index_) return {};  // no nodes
  if (const auto known = index_->sorted.load()) return *known;
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
        if (--waiting[static_cast<size_t>(use.node)] == 0) ready.emplace(node(use.node).order, smelt::index(use.node));
    }
  }
  if (sorted.size() == live) {
    index_->sorted.store(std::make_shared<const std::vector<NodeId>>(sorted));
    return sorted;
  }
  std::string stuck;
  int listed = 0;
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].alive && waiting[i] > 0 && listed++ < 8) stuck += (listed > 1 ? ", " : "") + describe(*this, NodeId(i));
  fail("graph '{}' has a cycle through or before {}{}", name, stuck, listed > 8 ? ", …" : "");
}

void Graph::settle() const {
  Index& x = *index_;
  size_t raised = 0;
  const size_t most = 4 * nodes_.size() + 1000;  // a cycle never ends
  while (!x.changed.empty() && raised <= most) {
    const NodeId n = x.changed.back();
    x.changed.pop_back();
    if (!node(n).alive) continue;
    int64_t& position = x.positions[static_cast<size_t>(n)];
    const int64_t before = position;
    for (ValueId v : node(n).inputs)
      if (v != ValueId::none && value(v).producer != NodeId::none)
        position = std::max(position, x.positions[static_cast<size_t>(value(v).producer)] + 1);
    ++raised;
    for (ValueId v : node(n).outputs)
      if (v != ValueId::none)
        for (const Use& use : readers(v))
          if (x.positions[static_cast<size_t>(use.node)] <= position) x.changed.push_back(use.node);
    if (position == before) continue;
    x.last_position = std::max(x.last_position, position);
  }
  if (x.changed.empty()) return;
  int64_t position = 0;
  for (NodeId n : topological()) x.positions[static_cast<size_t>(n)] = position += position_gap;
  x.last_position = position;
  x.changed.clear();
}

int64_t Graph::position(NodeId n) const {
  if (!index_->changed.empty()) settle();
  return index_->positions[static_cast<size_t>(n)];
}

bool Graph::is_output(ValueId v) const {
  const auto i = static_cast<size_t>(v);
  return index_ && v != ValueId::none && i < index_->output_uses.size() && index_->output_uses[i] > 0;
}

bool Graph::is_input(ValueId v) const {
  const auto i = static_cast<size_t>(v);
  return index_ && v != ValueId::none && i < index_->is_input.size() && index_->is_input[i];
}

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

// A value that does not exist is the verifier's to find.
void Graph::count_output(ValueId v, int by) {
  if (smelt::index(v) < 0 || static_cast<size_t>(v) >= values_.size()) return;
  std::vector<int32_t>& uses = index().output_uses;
  if (uses.size() < values_.size()) uses.resize(values_.size(), 0);
  uses[static_cast<size_t>(v)] = std::max(0, uses[static_cast<size_t>(v)] + by);
}

void Graph::add_input(ValueId v) {
  inputs_.push_back(v);
  if (smelt::index(v) < 0 || static_cast<size_t>(v) >= values_.size()) return;
  std::vector<bool>& is_input = index().is_input;
  if (is_input.size() < values_.size()) is_input.resize(values_.size(), false);
  is_input[static_cast<size_t>(v)] = true;
}

void Graph::set_inputs(std::vector<ValueId> all) {
  index().is_input.assign(values_.size(), false);
  inputs_.clear();
  for (ValueId v : all) add_input(v);
}

void Graph::add_output(ValueId v) {
  outputs_.push_back(v);
  count_output(v, 1);
}

void Graph::set_output(size_t i, ValueId v) {
  count_output(outputs_[i], -1);
  outputs_[i] = v;
  count_output(v, 1);
}

void Graph::set_outputs(std::vector<ValueId> all) {
  for (ValueId v : outputs_) count_output(v, -1);
  outputs_ = std::move(all);
  for (ValueId v : outputs_) count_output(v, 1);
}

Node& Graph::edit(NodeId n) {
  index().sorted.store(nullptr);  // its order may change
  if (static_cast<size_t>(n) < index_->sorted_sources.size()) index_->sorted_sources[static_cast<size_t>(n)] = false;
  return at(n);
}

void Graph::edges_changed(NodeId n) {
  Index& x = index();
  x.sorted.store(nullptr);
  x.changed.push_back(n);
}

void Graph::read(Use use, ValueId v) {
  std::vector<Use>& list = readers_[static_cast<size_t>(v)];
  index_->places[static_cast<size_t>(use.node)][static_cast<size_t>(use.input)] = static_cast<int32_t>(list.size());
  list.push_back(use);
  at(use.node).inputs[static_cast<size_t>(use.input)] = v;
}

void Graph::stop_reading(Use use) {
  ValueId& v = at(use.node).inputs[static_cast<size_t>(use.input)];
  if (v == ValueId::none) return;
  const auto place = [&](Use u) -> int32_t& { return index_->places[static_cast<size_t>(u.node)][static_cast<size_t>(u.input)]; };
  std::vector<Use>& list = readers_[static_cast<size_t>(v)];
  const auto at = static_cast<size_t>(place(use));
  if (list.size() <= ordered_readers) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    for (size_t i = at; i < list.size(); ++i) place(list[i]) = static_cast<int32_t>(i);
  } else {
    list[at] = list.back();
    place(list[at]) = static_cast<int32_t>(at);
    list.pop_back();
  }
  v = ValueId::none;
}

ValueId Graph::add_value(std::string wanted, DType type, std::optional<SymShape> shape) {
  const auto v = ValueId(values_.size());
  values_.push_back({.name = {}, .type = type, .shape = std::move(shape)});
  readers_.emplace_back();
  rename(v, wanted.empty() ? "v" + std::to_string(smelt::index(v)) : std::move(wanted));
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
  Index& x = index();
  const bool last = n.order == 0;
  n.alive = true;
  if (last) n.order = last_order_ + 1;
  last_order_ = std::max(last_order_, n.order);
  int64_t after = 0, before = 0;  // positions of what it reads and of what reads it; 0: nothing
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == ValueId::none) continue;
    Value& v = mutable_value(n.outputs[i]);
    if (v.producer != NodeId::none)
      fail("{}: output {} ('{}') has a producer already: {}", n.name, i, v.name, describe(*this, v.producer));
    v.producer = id;
    v.output = static_cast<int>(i);
    for (const Use& use : readers(n.outputs[i])) {
      const int64_t reader = x.positions[static_cast<size_t>(use.node)];
      before = before == 0 ? reader : std::min(before, reader);
    }
  }
  const std::vector<ValueId> inputs = std::exchange(n.inputs, std::vector<ValueId>(n.inputs.size(), ValueId::none));
  x.places.emplace_back(inputs.size());
  nodes_.push_back(std::move(n));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == ValueId::none) continue;
    read({id, static_cast<int>(i)}, inputs[i]);
    if (const NodeId p = value(inputs[i]).producer; p != NodeId::none)
      after = std::max(after, x.positions[static_cast<size_t>(p)]);
  }
  // Beside its neighbours, so that few others have to move.
  int64_t position = std::max(x.last_position, after) + position_gap;
  if (before > 0 || !last) position = after > 0 ? after + 1 : before > 0 ? before - 1 : position;
  x.last_position = std::max(x.last_position, position);
  x.positions.push_back(position);
  edges_changed(id);
  return id;
}

void Graph::set_input(NodeId n, size_t i, ValueId v) {
  Node& node = at(n);
  if (node.inputs.size() <= i) {
    node.inputs.resize(i + 1, ValueId::none);
    index().places[static_cast<size_t>(n)].resize(i + 1);
  }
  const Use use{n, static_cast<int>(i)};
  stop_reading(use);
  if (v != ValueId::none) read(use, v);
  edges_changed(n);
}

void Graph::set_inputs(NodeId n, std::vector<ValueId> inputs) {
  Node& node = at(n);
  for (size_t i = node.inputs.size(); i-- > 0;) stop_reading({n, static_cast<int>(i)});
  node.inputs.assign(inputs.size(), ValueId::none);
  index().places[static_cast<size_t>(n)].resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] != ValueId::none) read({n, static_cast<int>(i)}, inputs[i]);
  edges_changed(n);
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
  const std::vector<Use> uses = std::exchange(readers_[static_cast<size_t>(from)], {});
  for (const Use& use : uses) {
    read(use, to);
    index_->changed.push_back(use.node);
  }
  if (!uses.empty()) index_->sorted.store(nullptr);
  if (!is_output(from)) return;
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i] == from) set_output(i, to);
}

void Graph::remove_node(NodeId n) {
  set_inputs(n, {});
  Node& node = at(n);
  for (ValueId v : node.outputs) {
    if (v == ValueId::none) continue;
    mutable_value(v).producer = NodeId::none;
    mutable_value(v).output = 0;
  }
  node.outputs.clear();
  node.alive = false;
}

void Graph::merge_sources(NodeId to, NodeId from) { merge_sources(to, std::span(&from, 1)); }

void Graph::merge_sources(NodeId to, std::span<const NodeId> from) {
  std::vector<int32_t>& all = at(to).sources;
  std::vector<bool>& sorted = index().sorted_sources;
  if (sorted.size() < nodes_.size()) sorted.resize(nodes_.size(), false);
  // Most often what joins comes later in the model than what is there.
  const std::vector<int32_t>* one = from.size() == 1 ? &node(from[0]).sources : nullptr;
  if (one && one->size() == 1 && sorted[static_cast<size_t>(to)] && (all.empty() || all.back() < one->front())) {
    all.push_back(one->front());
    return;
  }
  sorted[static_cast<size_t>(to)] = true;
  for (NodeId n : from) all.insert(all.end(), node(n).sources.begin(), node(n).sources.end());
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
