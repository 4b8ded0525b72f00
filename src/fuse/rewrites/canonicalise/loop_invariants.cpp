// Before   Loop or Scan, whose body hands a state on as it got it (TensorFlow's exporters carry a loop's weights so)
// After    the state among the values that the body captures, what reads the loop's result reads the state's first value: nothing is
//          copied in each iteration, and the body knows the value where it is constant
// Unless   the body computes the state, or it has no first value of its type
#include <algorithm>

#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// Where the states stand: the first one's index among the node's inputs and the body's (the same), and among the body's outputs.
struct States {
  size_t input = 0, output = 0, count = 0;
};

std::optional<States> states_of(const Node& node) {
  const auto captured = static_cast<size_t>(node.get_int("captured", 0));
  const auto scanned = static_cast<size_t>(node.get_int("num_scan_inputs", 0));
  if (node.is("Loop") && node.inputs.size() >= 2 + captured) return States{2, 1, node.inputs.size() - 2 - captured};
  if (node.is("Scan") && node.inputs.size() >= scanned + captured) return States{0, 0, node.inputs.size() - scanned - captured};
  return std::nullopt;
}

/// What an Identity, or several, hand on.
ValueId origin(const Graph& g, ValueId v) {
  for (NodeId n = g.value(v).producer; n != NodeId::none && g.node(n).is("Identity"); n = g.value(v).producer)
    v = g.node(n).in(0);
  return v;
}

std::vector<size_t> invariants(const Graph& g, const Node& node, const Graph& body, const States& states) {
  std::vector<size_t> found;
  if (body.inputs().size() != node.inputs.size() || body.outputs().size() < states.output + states.count ||
      node.outputs.size() + states.output != body.outputs().size())
    return found;
  for (size_t s = 0; s < states.count; ++s) {
    const ValueId first = node.inputs[states.input + s], inner = body.inputs()[states.input + s];
    if (first == ValueId::none || origin(body, body.outputs()[states.output + s]) != inner) continue;
    if (g.value(first).type == body.value(inner).type) found.push_back(s);
  }
  return found;
}

/// The list with the elements at these places taken out, and put at its end where `keeps`.
std::vector<ValueId> without(const std::vector<ValueId>& list, const std::vector<size_t>& places, size_t first, bool keeps) {
  std::vector<ValueId> left, taken;
  for (size_t i = 0; i < list.size(); ++i) {
    const bool out = i >= first && std::ranges::find(places, i - first) != places.end();
    (out ? taken : left).push_back(list[i]);
  }
  if (keeps) left.insert(left.end(), taken.begin(), taken.end());
  return left;
}

NodeId capture(Graph& g, NodeId n, const States& states, const std::vector<size_t>& places) {
  Node node = g.node(n);
  auto body = std::make_shared<Graph>(clone(*node.get_graph("body")));
  body->set_inputs(without(body->inputs(), places, states.input, true));
  body->set_outputs(without(body->outputs(), places, states.output, false));
  g.remove_node(n);
  for (const size_t s : places) {
    if (node.outputs[s] == ValueId::none) continue;
    Node copy{.op = "Identity", .name = node.name, .opset = node.opset, .inputs = {node.inputs[states.input + s]}};
    copy.outputs = {node.outputs[s]};
    copy.sources = node.sources;
    copy.order = node.order;
    g.add_node(std::move(copy));
  }
  node.inputs = without(node.inputs, places, states.input, true);
  node.outputs = without(node.outputs, places, 0, false);
  node.attrs["body"] = GraphPtr(std::move(body));
  node.attrs["captured"] = node.get_int("captured", 0) + static_cast<int64_t>(places.size());
  return g.add_node(std::move(node));
}

}  // namespace

Outcome loop_invariants(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const auto states = states_of(node);
  const GraphPtr body = states ? node.get_graph("body") : nullptr;
  if (!body) return NotHere{};
  std::vector<size_t> places = invariants(g, node, *body, *states);
  if (places.empty()) return NotHere{};
  return Match{{n}, [n, s = *states, places = std::move(places)](Graph& graph) { return capture(graph, n, s, places); }};
}

}  // namespace smelt::fuse
