// Before   QLinearConv or QLinearMatMul
// After    QuantizeLinear(ai.smelt.QLinearConv) or …MatMul: qlinear_epilogue takes the QuantizeLinear in
// Unless   an activation's scale is not one number
//          the convolution works out its own padding by an extent that is not known, or the rank of its weights is not
#include <array>

#include "fuse/match/channels.h"
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome qlinear_operator(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const bool conv = node.is("QLinearConv");
  if (!conv && !node.is("QLinearMatMul")) return NotHere{};
  if (node.inputs.size() < 8)
    return refuse(Reason::missing_input, n, "{} has {} inputs of 8", describe(g, n), node.inputs.size());
  if (const auto no = several_numbers(g, n, std::array<size_t, 4>{1, 2, 6, 7})) return *no;
  if (conv && rank(g, node.in(3)) < 3)
    return refuse(Reason::unknown_shape, n, "the weights of {} have rank {}", describe(g, n), rank(g, node.in(3)));
  if (works_out_padding(node)) return refuse(Reason::wrong_attribute, n, "{} works out its own padding", describe(g, n));

  // x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B
  const auto& in = node.inputs;
  std::vector<ValueId> inputs = conv ? std::vector{in[0], in[3], node.in(8), in[1], in[2], in[4], needed_zero_point(g, in[5])}
                                     : std::vector{in[0], in[3], in[1], in[2], in[4], needed_zero_point(g, in[5])};
  return Match{{n}, [n, conv, inputs, y_scale = in[6], y_zero = in[7]](Graph& graph) {
                 const Node old = graph.node(n);
                 const ValueId real = graph.add_value(old.name + "_real", DType::f32, graph.value(old.out()).shape);
                 Node fused = fused_node(conv ? "QLinearConv" : "QLinearMatMul", inputs, {real});
                 fused.attrs = old.attrs;
                 fused.attrs.erase("auto_pad");
                 const NodeId made = replace(graph, {n}, std::move(fused));
                 graph.add_node({.op = "QuantizeLinear",
                                 .name = old.name + "_quantize",
                                 .opset = old.opset,
                                 .inputs = {real, y_scale, y_zero},
                                 .outputs = old.outputs,
                                 .sources = old.sources,
                                 .order = old.order});
                 return made;
               }};
}

}  // namespace smelt::fuse
