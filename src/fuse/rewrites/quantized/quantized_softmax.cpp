// Before   QuantizeLinear(Softmax(DequantizeLinear(x))), over the last axis
// After    ONNX Runtime's QLinearSoftmax, which is the same by its definition
// Unless   x or the result is not of 8 bits, or of more than one scale
//          the result's zero point is left out where x is of i8
//          the softmax is over another axis; its result has another reader or is a graph output
#include <array>

#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

bool is_byte(const Graph& g, ValueId v) { return g.value(v).type == DType::u8 || g.value(v).type == DType::i8; }

/// Whether a kernel takes a QLinearSoftmax as it is.
bool of_bytes_over_the_last_axis(const Graph& g, const Node& n) {
  const int r = rank(g, n.in(0));
  const int64_t axis = n.get_int("axis", -1);
  return n.is("QLinearSoftmax", microsoft_domain) && is_byte(g, n.in(0)) && is_byte(g, n.out()) && r > 0 &&
         (axis == -1 || axis == r - 1) && size_of(g, n.in(1)) == 1 && size_of(g, n.in(3)) == 1 &&
         g.value(n.in(1)).type == DType::f32 && g.value(n.in(3)).type == DType::f32;
}

}  // namespace

Outcome quantized_softmax(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (!node.is("Softmax") || !made_by(g, node.in(0), "DequantizeLinear")) return NotHere{};
  const auto x = dequantized(g, node.in(0));
  if (!x) return x.refusal();
  const int r = rank(g, node.in(0));
  if (const int64_t axis = node.get_int("axis", node.opset > 0 && node.opset < 13 ? 1 : -1);
      r <= 0 || (axis != -1 && axis != r - 1))
    return refuse(Reason::wrong_axis, n, "a softmax over axis {} of {}", axis, r);
  const auto reader = reader_of(g, node.out());
  if (!reader) return reader.refusal();
  const Node& quantize = g.node(*reader);
  if (!quantize.is("QuantizeLinear") || quantize.in(0) != node.out())
    return refuse(Reason::wrong_reader, *reader, "{} does not quantize {}", describe(g, *reader), g.value(node.out()).name);
  if (const auto no = several_numbers(g, *reader, std::array<size_t, 1>{1})) return *no;
  if (!is_byte(g, quantize.out()))
    return refuse(Reason::wrong_type, *reader, "{} gives {}", describe(g, *reader), name(g.value(quantize.out()).type));
  for (const ValueId scale : {x->scale, quantize.in(1)})
    if (g.value(scale).type != DType::f32)
      return refuse(Reason::wrong_type, n, "{} is {}", g.value(scale).name, name(g.value(scale).type));
  if (quantize.in(2) == ValueId::none && g.value(x->x).type != g.value(quantize.out()).type)
    return refuse(Reason::missing_input, *reader, "{} has no zero point", describe(g, *reader));
  Node fused = node;
  fused.op = "QLinearSoftmax";
  fused.domain = microsoft_domain;
  fused.opset = 1;
  fused.inputs = {x->x, x->scale, x->zero_point, quantize.in(1), quantize.in(2)};
  fused.outputs = quantize.outputs;
  fused.attrs = {{"axis", int64_t{-1}}, {"opset", int64_t{13}}};
  const std::vector<NodeId> nodes{n, *reader};
  return Match{in_order(g, {x->node, n, *reader}), [nodes, fused](Graph& graph) { return replace(graph, nodes, fused); }};
}

Outcome qlinear_parts_but_softmax(const Graph& g, NodeId n) {
  return of_bytes_over_the_last_axis(g, g.node(n)) ? NotHere{} : qlinear_parts(g, n);
}

}  // namespace smelt::fuse
