// Before   Conv(DequantizeLinear(x), DequantizeLinear(w), DequantizeLinear(b))
// After    ai.smelt.QLinearConv(x, w, b): products of integers, scaled once
// Unless   x or w is not dequantized, or not from 8 bits
//          x has more than one scale, w has scales along another axis than its output channels'
//          w or b is computed
#include <algorithm>

#include "fuse/match/channels.h"
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"
#include "ops/core/operator.h"

namespace smelt::fuse {
namespace {

/// b as integers of the product's scale, or as numbers added behind it.
struct Bias {
  ValueId integers = ValueId::none;
  Tensor numbers;  // [M, 1, …], not valid when there are none
};

/// The integers behind a bias whose scale is that of the product and whose zero point is 0.
bool has_scale_of_product(const Graph& g, NodeId bias, const Dequantized& x, const Dequantized& w) {
  const Tensor &s = g.constant(bias, 1), &zero = g.constant(bias, 2);
  const Tensor &sx = g.value(x.scale).constant, &sw = g.value(w.scale).constant;
  if (g.constant(bias, 0).type() != DType::i32 || !s.valid() || !sx.valid() || !sw.valid()) return false;
  if (g.node(bias).in(2) != ValueId::none) {
    if (!zero.valid()) return false;
    for (int64_t z : zero.to_ints())
      if (z != 0) return false;
  }
  const auto found = s.to_doubles(), each = sw.to_doubles();
  if (sx.size() != 1 || found.empty() || each.empty() || (found.size() != each.size() && found.size() != 1 && each.size() != 1))
    return false;
  const double factor = sx.to_doubles()[0];
  for (size_t i = 0; i < std::max(found.size(), each.size()); ++i)
    if (!close(found[found.size() == 1 ? 0 : i], factor * each[each.size() == 1 ? 0 : i], DType::f32, 2)) return false;
  return true;
}

Result<Bias> bias_of(const Graph& g, NodeId conv, const Dequantized& x, const Dequantized& w) {
  Bias bias;
  if (NodeId maker; made_by(g, g.node(conv).in(2), "DequantizeLinear", &maker) && g.constant(maker, 0).valid() &&
                    g.constant(maker, 1).valid() && has_scale_of_product(g, maker, x, w)) {
    bias.integers = g.node(maker).in(0);
    return bias;
  }
  auto numbers = bias_numbers(g, conv, rank(g, w.x));
  if (!numbers) return numbers.refusal();
  bias.numbers = *std::move(numbers);
  return bias;
}

}  // namespace

Result<Tensor> bias_numbers(const Graph& g, NodeId conv, int64_t rank) {
  const ValueId b = g.node(conv).in(2);
  if (b == ValueId::none) return Tensor{};
  Tensor numbers;
  if (NodeId maker; g.value(b).is_constant()) {
    numbers = g.value(b).constant;
  } else if (made_by(g, b, "DequantizeLinear", &maker) && g.constant(maker, 0).valid() && g.constant(maker, 1).valid()) {
    const std::vector<Tensor> inputs{g.constant(maker, 0), g.constant(maker, 1), g.constant(maker, 2)};
    numbers = ops::evaluate(g.node(maker), std::span(inputs).first(g.node(maker).inputs.size()))[0];
  } else {
    return refuse(Reason::not_constant, g.value(b).producer, "the bias {} is computed", g.value(b).name);
  }
  if (rank < 3) return refuse(Reason::wrong_rank, conv, "{} has weights of rank {}", describe(g, conv), rank);
  Shape shape(static_cast<size_t>(rank) - 1, 1);
  shape[0] = numbers.size();
  return numbers.reshaped(shape);
}

Outcome quantized_conv(const Graph& g, NodeId conv) {
  const Node& node = g.node(conv);
  if (!node.is("Conv") || !(made_by(g, node.in(0), "DequantizeLinear") || made_by(g, node.in(1), "DequantizeLinear")))
    return NotHere{};
  const auto x = dequantized(g, node.in(0)), w = dequantized(g, node.in(1), 0);
  for (const auto* side : {&x, &w})
    if (!*side) return side->refusal();
  const Dequantized &qx = *x, &qw = *w;
  if (!g.value(qw.x).is_constant())
    return refuse(Reason::not_constant, qw.node, "the weights {} are computed", g.value(qw.x).name);
  if (works_out_padding(node)) return refuse(Reason::wrong_attribute, conv, "{} works out its own padding", describe(g, conv));
  const auto given = bias_of(g, conv, qx, qw);
  if (!given) return given.refusal();
  const Bias& bias = *given;

  const std::vector<ValueId> inputs{
      qx.x, qw.x, bias.integers, qx.scale, qx.zero_point, qw.scale, needed_zero_point(g, qw.zero_point)};
  Node fused = fused_node("QLinearConv", inputs, node.outputs);
  fused.attrs = node.attrs;
  fused.attrs.erase("auto_pad");
  if (const DType type = g.value(node.out()).type; bias.numbers.valid() || type != DType::f32) {
    expr::Program p;
    expr::Ref y = p.input(DType::f32);
    if (bias.numbers.valid()) y = p.call(expr::Fn::add, y, p.cast(p.input(bias.numbers.type()), DType::f32));
    p.output(p.cast(y, type));
    fused.program = std::move(p);
    fused.inputs.resize(7, ValueId::none);
  }
  std::vector<NodeId> nodes{qx.node, qw.node};
  if (NodeId maker; made_by(g, node.in(2), "DequantizeLinear", &maker)) nodes.push_back(maker);
  nodes.push_back(conv);
  return Match{in_order(g, nodes), [conv, fused, numbers = bias.numbers](Graph& graph) {
                 Node made = fused;
                 if (numbers.valid()) made.inputs.push_back(graph.add_constant(graph.node(conv).name + "_bias", numbers));
                 return replace(graph, {conv}, std::move(made));
               }};
}

}  // namespace smelt::fuse
