// Before   Exp(x - ReduceMax(x)) / ReduceSum(Exp(…)) along one axis, without the largest too, the quotient as Div or as product with
//          the reciprocal; Exp(LogSoftmax(x)); Exp(x - ReduceLogSumExp(x))
// After    Softmax(x)
// Unless   the sum is over several axes, or does not keep its axis
//          the exponentials have another reader or are a graph output
#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

struct Along {
  NodeId reduce = NodeId::none;
  int64_t axis = 0;
};

/// v as a reduction of x along one axis, which it keeps.
std::optional<Along> reduced(const Graph& g, ValueId v, std::string_view op, ValueId x) {
  Along a;
  if (!made_by(g, v, op, &a.reduce) || g.node(a.reduce).in(0) != x || g.node(a.reduce).get_int("keepdims", 1) != 1) return {};
  const auto axes = ints(g, a.reduce, "axes", 1);
  const int r = rank(g, x);
  if (!axes || axes->size() != 1 || r < 1 || (*axes)[0] < -r || (*axes)[0] >= r) return {};
  a.axis = (*axes)[0] < 0 ? (*axes)[0] + r : (*axes)[0];
  return a;
}

/// The sum by which exponentials are divided in n, which is their quotient; the nodes of it are added.
std::optional<Along> divisor(const Graph& g, NodeId n, ValueId exponentials, std::vector<NodeId>& nodes) {
  const Node& node = g.node(n);
  if (node.is("Div")) return node.in(0) == exponentials ? reduced(g, node.in(1), "ReduceSum", exponentials) : std::nullopt;
  const ValueId factor = other_input(g, n, exponentials);
  NodeId inverse;
  if (factor == ValueId::none) return {};
  nodes.push_back(g.value(factor).producer);
  if (made_by(g, factor, "Reciprocal", &inverse)) return reduced(g, g.node(inverse).in(0), "ReduceSum", exponentials);
  if (made_by(g, factor, "Div", &inverse) && is_scalar(g, g.node(inverse).in(0), 1))
    return reduced(g, g.node(inverse).in(1), "ReduceSum", exponentials);
  return {};
}

/// The match: a Softmax of x along the axis in the place of the nodes, whose result is y.
Outcome softmax_of(const Graph& g, std::vector<NodeId> nodes, ValueId x, ValueId y, int64_t axis) {
  nodes = in_order(g, std::move(nodes));
  if (auto no = escapes(g, nodes, {y})) return *no;
  if (!is_real(g.value(x).type) || g.value(x).type != g.value(y).type)
    return refuse(Reason::wrong_type, nodes.back(), "{} is {}, the result {}", g.value(x).name, name(g.value(x).type),
                  name(g.value(y).type));
  Node n = fused_node("Softmax", {x}, {y});
  n.domain = onnx_domain;
  n.opset = g.node(nodes.back()).opset;
  n.attrs["axis"] = axis;
  return replacement(nodes, std::move(n));
}

Outcome quotient(const Graph& g, NodeId n) {
  for (const ValueId e : g.node(n).inputs) {
    NodeId exp, sub;
    if (!made_by(g, e, "Exp", &exp)) continue;
    std::vector<NodeId> nodes{n, exp};
    const auto sum = divisor(g, n, e, nodes);
    if (!sum) continue;
    nodes.push_back(sum->reduce);
    ValueId x = g.node(exp).in(0);
    if (made_by(g, x, "Sub", &sub))
      if (const auto largest = reduced(g, g.node(sub).in(1), "ReduceMax", g.node(sub).in(0));
          largest && largest->axis == sum->axis && g.only_reader(x) != NodeId::none) {
        x = g.node(sub).in(0);
        nodes.insert(nodes.end(), {sub, largest->reduce});
      }
    return softmax_of(g, std::move(nodes), x, g.node(n).out(), sum->axis);
  }
  return NotHere{};
}

Outcome exponential(const Graph& g, NodeId n) {
  const ValueId logarithm = g.node(n).in(0);
  NodeId made;
  if (made_by(g, logarithm, "LogSoftmax", &made))
    return softmax_of(g, {made, n}, g.node(made).in(0), g.node(n).out(), g.node(made).get_int("axis", -1));
  if (!made_by(g, logarithm, "Sub", &made)) return NotHere{};
  const ValueId x = g.node(made).in(0);
  const auto sum = reduced(g, g.node(made).in(1), "ReduceLogSumExp", x);
  if (!sum) return NotHere{};
  return softmax_of(g, {sum->reduce, made, n}, x, g.node(n).out(), sum->axis);
}

}  // namespace

Outcome recognise_softmax(const Graph& g, NodeId n) {
  if (g.node(n).is("Div") || g.node(n).is("Mul")) return quotient(g, n);
  if (g.node(n).is("Exp")) return exponential(g, n);
  return NotHere{};
}

}  // namespace smelt::fuse
