// Before   x * HardSigmoid(x, alpha 1/6, beta 1/2), or x * Clip(x + 3, 0, 6) / 6; products in any order
// After    ai.smelt.Pointwise hard_swish(x)
// Unless   the limits or constants are others
//          the factor is not the argument, as in a squeeze-excite gate
//          a value inside has another reader or is a graph output
#include "fuse/rewrites/recognise/activation.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// The lower and upper limit of a Clip, from attributes (opset 6) or inputs; nothing when one is absent or computed.
std::optional<std::pair<double, double>> limits(const Graph& g, NodeId clip) {
  const Node& n = g.node(clip);
  if (n.has("min") && n.has("max")) return std::pair<double, double>{n.get_float("min", 0), n.get_float("max", 0)};
  auto low = scalar(g, n.in(1)), high = scalar(g, n.in(2));
  if (!low || !high) return {};
  return std::pair{*low, *high};
}

}  // namespace

Outcome recognise_hard_swish(const Graph& g, NodeId inner) {
  const Node& n = g.node(inner);
  if (n.is("HardSigmoid")) {
    // Attributes are f32 whatever the model's type is.
    if (!close(n.get_float("alpha", 0.2f), 1.0 / 6, DType::f32) || !close(n.get_float("beta", 0.5f), 0.5, DType::f32))
      return refuse(Reason::wrong_attribute, inner, "alpha {}, beta {}, not 1/6 and 1/2", n.get_float("alpha", 0.2f),
                    n.get_float("beta", 0.5f));
    return match_activation(g, inner, n.in(0), {expr::Fn::hard_swish, "hard_swish", {{{1, 1}, 1.0}}, {}});
  }
  if (!n.is("Clip")) return NotHere{};
  auto range = limits(g, inner);
  if (!range || range->first != 0 || range->second != 6) return NotHere{};
  NodeId add;
  if (!made_by(g, n.in(0), "Add", &add)) return NotHere{};  // Relu6
  auto shifted = constant_operand(g, add);
  if (!shifted || shifted->first != 3) return refuse(Reason::wrong_value, add, "Clip's argument is not x + 3");
  return match_activation(g, inner, shifted->second, {expr::Fn::hard_swish, "hard_swish", {{{1, 1}, 1.0 / 6}}, {add}});
}

}  // namespace smelt::fuse
