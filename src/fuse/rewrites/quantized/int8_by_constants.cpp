// The rewrites to int8 products where kernels want scales, zero points and a convolution's weights constant (a GPU's):
//
// Before   as quantized_conv, quantized_matmul and qlinear_operator have it
// After    the same; a QLinearConv or QLinearMatMul by something else computed in its parts, as qlinear_parts makes them
// Unless   of a product in parts, a scale, a zero point or a convolution's weights are computed
//          it is the product of a vector
//          a product of two computed matrices gives attention's scores in floats, which `attention` takes
//          of one to be taken apart, a scale is not one number, or a convolution has a bias
#include <algorithm>
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

/// The Softmax whose attention the product's scores would be: nothing lies between but nodes with one reader each.
NodeId attention_of(const Graph& g, NodeId product) {
  constexpr int most_between = 8;
  NodeId at = product;
  for (int step = 0; step < most_between; ++step) {
    const auto next = reader_of(g, g.node(at).out());
    if (!next || g.node(*next).is("QuantizeLinear")) break;
    at = *next;
    if (!g.node(at).is("Softmax")) continue;
    const Outcome taken = attention(g, at);
    const Match* const match = std::get_if<Match>(&taken);
    return match && std::ranges::find(match->nodes, product) != match->nodes.end() ? at : NodeId::none;
  }
  return NodeId::none;
}

}  // namespace

Outcome quantized_conv_by_constants(const Graph& g, NodeId n) {
  Outcome outcome = quantized_conv(g, n);
  if (!std::holds_alternative<Match>(outcome)) return outcome;
  auto no = computed(g, g.producer(n, 0), {1, 2});
  if (!no) no = computed(g, g.producer(n, 1), {0, 1, 2});
  return no ? Outcome(*no) : outcome;
}

Outcome quantized_matmul_by_constants(const Graph& g, NodeId n) {
  Outcome outcome = quantized_matmul(g, n);
  if (!std::holds_alternative<Match>(outcome)) return outcome;
  if (const int r = rank(g, g.node(n).in(0)); r == 0 || r == 1)
    return refuse(Reason::wrong_rank, n, "{} has rank {}, kernels multiply matrices", g.value(g.node(n).in(0)).name, r);
  for (const size_t side : {0, 1})
    if (auto no = computed(g, g.producer(n, side), {1, 2})) return *no;
  if (computed(g, g.producer(n, 0), {0}) && computed(g, g.producer(n, 1), {0}))
    if (const NodeId softmax = attention_of(g, n); softmax != NodeId::none)
      return refuse(Reason::wrong_reader, softmax, "{} takes the products as one attention in floats", describe(g, softmax));
  return outcome;
}

Outcome qlinear_operator_by_constants(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const bool conv = node.is("QLinearConv");
  if (!conv && !node.is("QLinearMatMul")) return qlinear_operator(g, n);
  if (!(conv ? computed(g, n, {1, 2, 3, 4, 5, 8}) : computed(g, n, {1, 2, 4, 5}))) return qlinear_operator(g, n);
  if (node.in(7) == ValueId::none) return refuse(Reason::missing_input, n, "{} has no zero point of its result", describe(g, n));
  if (const auto no = several_numbers(g, n, std::array<size_t, 3>{1, 4, 6})) return *no;
  if (conv && node.in(8) != ValueId::none)
    return refuse(Reason::unsupported, n, "{} has a bias beside something computed", describe(g, n));
  return in_parts(n, conv ? "Conv" : "MatMul", {0, 3}, 6);
}

}  // namespace smelt::fuse
