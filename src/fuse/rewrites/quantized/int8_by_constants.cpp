// The rewrites to int8 products where kernels want all but the left operand constant (a GPU's):
//
// Before   as quantized_conv, quantized_matmul and qlinear_operator have it
// After    the same; a QLinearConv or QLinearMatMul by something computed in its parts, as qlinear_parts makes them
// Unless   of a product in parts, the right operand, a scale or a zero point is computed
//          of one to be taken apart, a scale is not one number, or a convolution has a bias
#include <array>

#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// The first of a node's inputs in these places that is there and computed.
std::optional<Refusal> computed(const Graph& g, NodeId n, std::initializer_list<size_t> places) {
  for (const size_t i : places)
    if (const ValueId v = g.node(n).in(i); v != ValueId::none && !g.value(v).is_constant())
      return refuse(Reason::not_constant, n, "{} is computed", g.value(v).name);
  return std::nullopt;
}

/// What `match` finds at a product of two DequantizeLinear.
Outcome by_constants(const Graph& g, NodeId n, Outcome (*match)(const Graph&, NodeId)) {
  Outcome outcome = match(g, n);
  if (!std::holds_alternative<Match>(outcome)) return outcome;
  auto no = computed(g, g.producer(n, 0), {1, 2});
  if (!no) no = computed(g, g.producer(n, 1), {0, 1, 2});
  return no ? Outcome(*no) : outcome;
}

}  // namespace

Outcome quantized_conv_by_constants(const Graph& g, NodeId n) { return by_constants(g, n, quantized_conv); }
Outcome quantized_matmul_by_constants(const Graph& g, NodeId n) { return by_constants(g, n, quantized_matmul); }

Outcome qlinear_operator_by_constants(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const bool conv = node.is("QLinearConv");
  if ((!conv && !node.is("QLinearMatMul")) || !computed(g, n, {1, 2, 3, 4, 5, 8})) return qlinear_operator(g, n);
  if (node.in(7) == ValueId::none) return refuse(Reason::missing_input, n, "{} has no zero point of its result", describe(g, n));
  if (const auto no = several_numbers(g, n, std::array<size_t, 3>{1, 4, 6})) return *no;
  if (conv && node.in(8) != ValueId::none)
    return refuse(Reason::unsupported, n, "{} has a bias beside something computed", describe(g, n));
  return in_parts(n, conv ? "Conv" : "MatMul", {0, 3}, 6);
}

}  // namespace smelt::fuse
