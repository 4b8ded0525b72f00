// Before   Loop whose number of turns is known: a constant, or what its condition makes of constants
// After    the nodes of its body, once for each turn: a GPU runs them in one piece, where a Loop goes back to the processor at every turn
// Unless   the number of turns depends on what the run computes, or is large, or there is none
//          a state has no first value of its type
#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "fuse/rewrites/rewrites.h"
#include "graph/inline.h"
#include "ops/core/operator.h"

namespace smelt::fuse {
namespace {

constexpr int64_t most_turns = 512, most_nodes = 8192;  // nodes: of all turns

struct Parts {
  const Graph& g;
  NodeId n;
  const Node& node;
  const Graph& body;
  size_t states;
};

bool is_true(const Tensor& t) { return t.valid() && t.size() == 1 && t.to_ints()[0] != 0; }

/// The body's condition is what it was given, or a constant true.
bool keeps_on(const Graph& body) {
  ValueId v = body.outputs()[0];
  for (NodeId n = body.value(v).producer; n != NodeId::none && body.node(n).is("Identity"); n = body.value(v).producer)
    v = body.node(n).in(0);
  return v == body.inputs()[1] || is_true(body.value(v).constant);
}

/// Computes what the condition of each turn depends on, where that is constants alone.
class Condition {
 public:
  /// False where it depends on something else.
  bool find(const Parts& p) {
    if (!needs(p, p.body.outputs()[0])) return false;
    std::ranges::sort(nodes_, {}, [&](NodeId n) { return p.body.position(n); });
    return true;
  }

  /// Turn `turn`; the condition behind it.
  bool advance(const Parts& p, int64_t turn, bool go) {
    values_[p.body.inputs()[0]] = shaped(p, 0, Tensor::scalar(turn));
    values_[p.body.inputs()[1]] = shaped(p, 1, Tensor::scalar(go));
    for (const NodeId n : nodes_) {
      const Node& node = p.body.node(n);
      std::vector<Tensor> inputs;
      for (const ValueId v : node.inputs) inputs.push_back(v == ValueId::none ? Tensor() : value(p, v));
      const std::vector<Tensor> results = ops::evaluate(node, inputs);
      for (size_t o = 0; o < results.size(); ++o)
        if (node.outputs[o] != ValueId::none) values_[node.outputs[o]] = results[o];
    }
    const bool next = is_true(value(p, p.body.outputs()[0]));
    std::vector<std::pair<ValueId, Tensor>> states;
    for (const size_t s : states_) states.emplace_back(p.body.inputs()[2 + s], value(p, p.body.outputs()[1 + s]));
    for (auto& [v, t] : states) values_[v] = std::move(t);
    return next;
  }

 private:
  static Tensor shaped(const Parts& p, size_t input, const Tensor& scalar) {
    const auto& s = p.body.value(p.body.inputs()[input]).shape;
    return s && s->size() == 1 ? scalar.reshaped({1}) : scalar;
  }
  const Tensor& value(const Parts& p, ValueId v) const {
    return p.body.value(v).is_constant() ? p.body.value(v).constant : values_.at(v);
  }

  bool needs(const Parts& p, ValueId v) {
    constexpr size_t most = 64;
    if (v == ValueId::none || p.body.value(v).is_constant() || values_.contains(v)) return true;
    const std::vector<ValueId>& inputs = p.body.inputs();
    if (const auto at = std::ranges::find(inputs, v); at != inputs.end()) {
      const auto i = static_cast<size_t>(at - inputs.begin());
      if (i < 2) return true;
      const Tensor& first = p.g.constant(p.n, i);
      if (!first.valid() || first.size() > static_cast<int64_t>(most)) return false;
      values_[v] = first;
      if (i >= 2 + p.states) return true;
      states_.push_back(i - 2);
      return needs(p, p.body.outputs()[i - 1]);
    }
    const NodeId n = p.body.value(v).producer;
    if (n == NodeId::none) return false;
    if (std::ranges::find(nodes_, n) != nodes_.end()) return true;
    const Node& node = p.body.node(n);
    const ops::OpDef* def = ops::find(node.op, node.domain);
    const bool has_body =
        std::ranges::any_of(node.attrs, [](const auto& a) { return std::holds_alternative<GraphPtr>(a.second); });
    if (!def || !def->deterministic || node.domain != onnx_domain || has_body || nodes_.size() == most) return false;
    nodes_.push_back(n);
    return std::ranges::all_of(node.inputs, [&](ValueId in) { return needs(p, in); });
  }

  std::map<ValueId, Tensor> values_;
  std::vector<NodeId> nodes_;
  std::vector<size_t> states_;
};

Result<int64_t> turns_of(const Parts& p) {
  const bool has_trips = p.node.in(0) != ValueId::none, has_condition = p.node.in(1) != ValueId::none;
  const Tensor &trips = p.g.constant(p.n, 0), &condition = p.g.constant(p.n, 1);
  if (has_trips && !trips.valid())
    return refuse(Reason::not_constant, p.n, "the trip count of {} is computed", describe(p.g, p.n));
  if (has_condition && !condition.valid())
    return refuse(Reason::not_constant, p.n, "the condition of {} is computed", describe(p.g, p.n));
  const int64_t most = has_trips && trips.size() == 1 ? trips.to_ints()[0] : std::numeric_limits<int64_t>::max();
  if (has_condition && !is_true(condition)) return refuse(Reason::wrong_shape, p.n, "{} makes no turn", describe(p.g, p.n));
  if ((has_trips && !has_condition) || keeps_on(p.body)) return most;
  Condition within;
  if (!within.find(p))
    return refuse(Reason::not_constant, p.n, "whether {} goes on depends on what it computes", describe(p.g, p.n));
  int64_t turn = 0;
  for (bool go = true; go && turn < most && turn <= most_turns; ++turn) go = within.advance(p, turn, go);
  return turn;
}

std::optional<Refusal> rejects_states(const Parts& p) {
  for (size_t s = 0; s < p.states; ++s) {
    const ValueId first = p.node.inputs[2 + s];
    if (first == ValueId::none)
      return refuse(Reason::missing_input, p.n, "{} has a state without a first value", describe(p.g, p.n));
    const Value &outer = p.g.value(first), &in = p.body.value(p.body.inputs()[2 + s]),
                &out = p.body.value(p.body.outputs()[1 + s]);
    if (outer.type != in.type || in.type != out.type)
      return refuse(Reason::wrong_type, p.n, "state {} of {} changes its type", s, describe(p.g, p.n));
  }
  return std::nullopt;
}

}  // namespace

Outcome unroll_loop(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const GraphPtr body = node.is("Loop") ? node.get_graph("body") : nullptr;
  const auto captured = static_cast<size_t>(node.get_int("captured", 0));
  if (!body || node.inputs.size() < 2 + captured) return NotHere{};
  const Parts p{g, n, node, *body, node.inputs.size() - 2 - captured};
  if (body->inputs().size() != node.inputs.size() || body->outputs().size() != node.outputs.size() + 1 ||
      node.outputs.size() < p.states)
    return NotHere{};
  if (const auto no = rejects_states(p)) return *no;
  try {
    const auto turns = turns_of(p);
    if (!turns) return turns.refusal();
    const auto nodes = static_cast<int64_t>(body->live_nodes());
    if (*turns < 1) return refuse(Reason::wrong_shape, n, "{} makes no turn", describe(g, n));
    if (*turns > most_turns || *turns * nodes > most_nodes)
      return refuse(Reason::too_large, n, "{} makes {} turns of {} nodes, at most {} and {} are made one by one", describe(g, n),
                    *turns, nodes, most_turns, most_nodes);
    return Match{{n}, [n, turns = *turns](Graph& graph) {
                   inline_turns(graph, n, turns);
                   return NodeId::none;
                 }};
  } catch (const Error& e) {  // the condition's nodes say what is wrong with it when they run
    return refuse(Reason::unsupported, n, "{}", e.what());
  }
}

}  // namespace smelt::fuse
