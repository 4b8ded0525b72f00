#include "fuse/match/match.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>

namespace smelt::fuse {

bool made_by(const Graph& g, ValueId v, std::string_view op, NodeId* node, std::string_view domain) {
  if (v == ValueId::none) return false;
  NodeId n = g.value(v).producer;
  if (n == NodeId::none || !g.node(n).is(op, domain)) return false;
  if (node) *node = n;
  return true;
}

std::optional<double> scalar(const Graph& g, ValueId v) {
  if (v == ValueId::none || !g.value(v).is_constant()) return {};
  const Tensor& t = g.value(v).constant;
  if (t.size() != 1 || !(is_real(t.type()) || is_integer(t.type()) || t.type() == DType::boolean)) return {};
  return t.to_doubles()[0];
}

bool close(double found, double expected, DType type, double slack) {
  double ulp = type == DType::f64 ? 0x1p-52 : type == DType::f16 ? 0x1p-10 : type == DType::bf16 ? 0x1p-7 : 0x1p-23;
  return std::abs(found - expected) <= slack * ulp * std::abs(expected);
}

bool is_scalar(const Graph& g, ValueId v, double expected) {
  auto found = scalar(g, v);
  return found && close(*found, expected, g.value(v).type);
}

std::optional<std::pair<double, ValueId>> constant_operand(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (node.inputs.size() != 2) return {};
  for (int i : {1, 0})
    if (auto c = scalar(g, node.in(i))) return std::pair{*c, node.in(1 - i)};
  return {};
}

ValueId other_input(const Graph& g, NodeId n, ValueId v) {
  const Node& node = g.node(n);
  if (node.inputs.size() != 2 || node.in(0) == node.in(1)) return ValueId::none;
  return node.in(0) == v ? node.in(1) : node.in(1) == v ? node.in(0) : ValueId::none;
}

std::optional<std::vector<int64_t>> ints(const Graph& g, NodeId n, const std::string& attr, size_t input) {
  const Node& node = g.node(n);
  if (node.has(attr)) return node.get_ints(attr);
  if (node.in(input) == ValueId::none || !g.value(node.in(input)).is_constant()) return {};
  return g.constant(n, input).to_ints();
}

int rank(const Graph& g, ValueId v) {
  if (v == ValueId::none) return -1;
  const std::optional<SymShape>& shape = g.value(v).shape;
  return shape ? static_cast<int>(shape->size()) : -1;
}

bool are_trailing(std::vector<int64_t> axes, int rank, int* count) {
  for (int64_t& a : axes)
    if (a >= 0) {
      if (rank < 0) return false;
      a -= rank;
    }
  std::sort(axes.begin(), axes.end());
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(i) - static_cast<int64_t>(axes.size())) return false;
  *count = static_cast<int>(axes.size());
  return !axes.empty() && (rank < 0 || *count <= rank);
}

Result<NodeId> reader_of(const Graph& g, ValueId v) {
  NodeId maker = g.value(v).producer;
  if (g.is_output(v)) return refuse(Reason::graph_output, maker, "{} is a graph output", g.value(v).name);
  auto readers = g.readers(v);
  if (readers.empty()) return refuse(Reason::wrong_reader, maker, "{} is not read", g.value(v).name);
  for (const Use& u : readers)
    if (u.node != readers[0].node)
      return refuse(Reason::extra_reader, u.node, "{} has {}", g.value(v).name, readers_text(readers.size()));
  return readers[0].node;
}

std::optional<Refusal> escapes(const Graph& g, std::span<const NodeId> nodes, std::initializer_list<ValueId> results) {
  for (NodeId n : nodes)
    for (ValueId v : g.node(n).outputs) {
      if (v == ValueId::none || std::find(results.begin(), results.end(), v) != results.end()) continue;
      if (g.is_output(v)) return refuse(Reason::graph_output, n, "{} is a graph output", g.value(v).name);
      for (const Use& u : g.readers(v))
        if (std::find(nodes.begin(), nodes.end(), u.node) == nodes.end())
          return refuse(Reason::extra_reader, u.node, "{} is also read by {}", g.value(v).name, describe(g, u.node));
    }
  return {};
}

bool depends_on(const Graph& g, ValueId v, NodeId from) {
  std::vector<NodeId> pending;
  std::set<NodeId> seen;
  const int64_t first = g.position(from);
  auto visit = [&](ValueId u) {
    if (u == ValueId::none) return;
    NodeId p = g.value(u).producer;
    if (p != NodeId::none && g.position(p) >= first && seen.insert(p).second) pending.push_back(p);
  };
  visit(v);
  while (!pending.empty()) {
    NodeId n = pending.back();
    pending.pop_back();
    if (n == from) return true;
    for (ValueId u : g.node(n).inputs) visit(u);
  }
  return false;
}

std::vector<NodeId> in_order(const Graph& g, std::vector<NodeId> nodes) {
  std::set<NodeId> left(nodes.begin(), nodes.end()), done;
  std::vector<NodeId> sorted;
  std::sort(nodes.begin(), nodes.end(),
            [&](NodeId a, NodeId b) { return std::pair(g.node(a).order, index(a)) < std::pair(g.node(b).order, index(b)); });
  while (!left.empty()) {
    size_t before = sorted.size();
    for (NodeId n : nodes) {
      if (!left.contains(n)) continue;
      bool ready = true;
      for (ValueId v : g.node(n).inputs)
        if (v != ValueId::none && left.contains(g.value(v).producer)) ready = false;
      if (!ready) continue;
      left.erase(n);
      sorted.push_back(n);
    }
    if (sorted.size() == before) fail("nodes to be fused form a cycle at {}", describe(g, *left.begin()));
  }
  return sorted;
}

NodeId replace(Graph& g, const std::vector<NodeId>& nodes, Node fused) {
  const Node& last = g.node(nodes.back());
  fused.name = last.name;
  std::unordered_set<int32_t> known(fused.sources.begin(), fused.sources.end());
  for (NodeId n : nodes) {
    fused.order = std::max(fused.order, g.node(n).order);
    for (int32_t s : g.node(n).sources)
      if (known.insert(s).second) fused.sources.push_back(s);
  }
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) g.remove_node(*it);
  return g.add_node(std::move(fused));
}

Match replacement(const std::vector<NodeId>& nodes, Node fused, std::string form) {
  return {nodes, [nodes, fused = std::move(fused)](Graph& g) { return replace(g, nodes, fused); }, std::move(form)};
}

std::string joined(std::span<const std::string_view> parts) { return fmt::format("{}", fmt::join(parts, " + ")); }

Node fused_node(std::string op, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  while (!inputs.empty() && inputs.back() == ValueId::none) inputs.pop_back();
  Node n;
  n.domain = smelt_domain;
  n.op = std::move(op);
  n.opset = 1;
  n.inputs = std::move(inputs);
  n.outputs = std::move(outputs);
  return n;
}

}  // namespace smelt::fuse
