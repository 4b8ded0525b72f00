// Before   x * 0.5 * (1 + Erf(x / sqrt 2)), or with Tanh(sqrt(2/pi) * (x + 0.044715 x^3)) in the place of Erf; the products
//          and sums in any order and association, x^3 as Pow or as products
// After    ai.smelt.Pointwise gelu(x), gelu_tanh(x)
// Unless   the constants are others (beyond the type's last place)
//          a value inside has another reader or is a graph output
//          the factor is not the argument
#include "fuse/rewrites/recognise/activation.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr double sqrt_half = 0.70710678118654752, sqrt_2_over_pi = 0.79788456080286536, cubic = 0.044715;

/// The x for which Erf's or Tanh's argument is the pattern's; none when there is none.
ValueId find_x(const Graph& g, NodeId inner, const Polynomial& expected, std::vector<NodeId>* nodes) {
  ValueId argument = g.node(inner).in(0);
  for (ValueId x : formula_values(g, argument)) {
    if (x == argument) continue;
    Expansion expansion(g, x);
    auto p = expansion.of(argument);
    if (p && equals(*p, expected, g.value(x).type)) {
      *nodes = expansion.nodes();
      return x;
    }
  }
  return ValueId::none;
}

}  // namespace

Outcome recognise_gelu(const Graph& g, NodeId inner) {
  bool erf = g.node(inner).is("Erf");
  if (!erf && !g.node(inner).is("Tanh")) return NotHere{};
  Polynomial argument =
      erf ? Polynomial{{{1, 0}, sqrt_half}} : Polynomial{{{1, 0}, sqrt_2_over_pi}, {{3, 0}, sqrt_2_over_pi * cubic}};
  ActivationPattern pattern{
      erf ? expr::Fn::gelu : expr::Fn::gelu_tanh, erf ? "gelu" : "gelu_tanh", {{{1, 0}, 0.5}, {{1, 1}, 0.5}}, {}};
  ValueId x = find_x(g, inner, argument, &pattern.argument);
  if (x == ValueId::none) {
    if (!erf) return NotHere{};  // a Tanh of anything else is an activation of its own
    return refuse(Reason::wrong_value, g.producer(inner, 0), "Erf's argument is not x / sqrt(2)");
  }
  return match_activation(g, inner, x, pattern);
}

}  // namespace smelt::fuse
