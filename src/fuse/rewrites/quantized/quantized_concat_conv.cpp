// Before   Conv(Concat(DequantizeLinear(x1), …, DequantizeLinear(xk)), DequantizeLinear(w), b) over the channels, scales that may differ
// After    ai.smelt.QLinearConv(x1, …, xk, w) of k segments: products of integers, scaled once for each segment
// Unless   an input is not dequantized by constants from 8 bits of the same type, or with several scales
//          w is not dequantized from 8 bits, or has scales along another axis than its output channels'
//          w or b is computed, or the number of an input's channels is not known
//          the concatenation is along another axis; groups
// Plans leave it out on a processor, where no kernel reads several images.
#include <algorithm>

#include "fuse/match/channels.h"
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// One number of each segment as a list.
Tensor list_of(const std::vector<double>& numbers, DType type) {
  return Tensor::of<double>({std::ssize(numbers)}, numbers).cast(type);
}

}  // namespace

Outcome quantized_concat_conv(const Graph& g, NodeId conv) {
  constexpr size_t most = 8;
  const Node& node = g.node(conv);
  NodeId concat;
  if (!node.is("Conv") || !made_by(g, node.in(0), "Concat", &concat) || !made_by(g, node.in(1), "DequantizeLinear"))
    return NotHere{};
  const Node& joined = g.node(concat);
  if (std::ranges::none_of(joined.inputs, [&](ValueId v) { return made_by(g, v, "DequantizeLinear"); })) return NotHere{};
  const auto w = dequantized(g, node.in(1), 0);
  if (!w) return w.refusal();
  if (!g.value(w->x).is_constant())
    return refuse(Reason::not_constant, w->node, "the weights {} are computed", g.value(w->x).name);
  const auto& shape = g.value(joined.out()).shape;
  if (!shape) return refuse(Reason::unknown_shape, concat, "the rank of {} is not known", g.value(joined.out()).name);
  if (normalize_axis(joined.get_int("axis", 0), static_cast<int64_t>(shape->size())) != 1)
    return refuse(Reason::wrong_axis, concat, "{} joins along axis {}", describe(g, concat), joined.get_int("axis", 0));
  if (node.get_int("group", 1) != 1)
    return refuse(Reason::wrong_attribute, conv, "{} has {} groups", describe(g, conv), node.get_int("group", 1));
  if (works_out_padding(node)) return refuse(Reason::wrong_attribute, conv, "{} works out its own padding", describe(g, conv));
  const size_t count = joined.inputs.size();
  if (count < 2 || count > most)
    return refuse(Reason::too_large, concat, "{} joins {} inputs, expected 2 to {}", describe(g, concat), count, most);

  std::vector<ValueId> inputs;
  std::vector<double> scales, zeros;
  std::vector<NodeId> nodes;
  DType type = DType::undefined;
  for (const ValueId v : joined.inputs) {
    const auto x = dequantized(g, v);
    if (!x) return x.refusal();
    const Tensor &scale = g.value(x->scale).constant,
                 zero = x->zero_point == ValueId::none ? Tensor{} : g.value(x->zero_point).constant;
    if (!scale.valid() || (x->zero_point != ValueId::none && !zero.valid()))
      return refuse(Reason::not_constant, x->node, "the scale or zero point of {} is computed", g.value(v).name);
    const auto& of = g.value(x->x).shape;
    if (!of || of->size() < 3 || !(*of)[1].known())
      return refuse(Reason::unknown_shape, concat, "the channels of {} are not known", g.value(v).name);
    const DType own = g.value(x->x).type;
    if (type != DType::undefined && own != type)
      return refuse(Reason::wrong_type, x->node, "{} is {}, an input before it {}", g.value(x->x).name, name(own), name(type));
    type = own;
    inputs.push_back(x->x);
    scales.push_back(scale.to_doubles()[0]);
    zeros.push_back(zero.valid() ? zero.to_doubles()[0] : 0);
    nodes.push_back(x->node);
  }
  const auto bias = bias_numbers(g, conv, rank(g, w->x));
  if (!bias) return bias.refusal();

  Node fused = fused_node("QLinearConv", {}, node.outputs);
  fused.attrs = node.attrs;
  fused.attrs.erase("auto_pad");
  fused.attrs["segments"] = static_cast<int64_t>(count);
  if (const DType result = g.value(node.out()).type; bias->valid() || result != DType::f32) {
    expr::Program p;
    expr::Ref y = p.input(DType::f32);
    if (bias->valid()) y = p.call(expr::Fn::add, y, p.cast(p.input(bias->type()), DType::f32));
    p.output(p.cast(y, result));
    fused.program = std::move(p);
  }
  nodes.insert(nodes.end(), {w->node, concat});
  if (NodeId maker; made_by(g, node.in(2), "DequantizeLinear", &maker)) nodes.push_back(maker);
  nodes.push_back(conv);
  const bool any_zero = std::ranges::any_of(zeros, [](double z) { return z != 0; });
  return Match{
      in_order(g, nodes),
      [conv, fused, inputs, w = *w, scales = list_of(scales, DType::f32), zeros = any_zero ? list_of(zeros, type) : Tensor{},
       zero_of_w = needed_zero_point(g, w->zero_point), numbers = *bias](Graph& graph) {
        Node made = fused;
        const std::string name = graph.node(conv).name;
        made.inputs = inputs;
        made.inputs.insert(made.inputs.end(),
                           {w.x, ValueId::none, graph.add_constant(name + "_scales", scales),
                            zeros.valid() ? graph.add_constant(name + "_zeros", zeros) : ValueId::none, w.scale, zero_of_w});
        if (numbers.valid()) made.inputs.push_back(graph.add_constant(name + "_bias", numbers));
        while (made.inputs.back() == ValueId::none) made.inputs.pop_back();
        return replace(graph, {conv}, std::move(made));
      }};
}

}  // namespace smelt::fuse
