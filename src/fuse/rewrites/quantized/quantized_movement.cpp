// Before   QuantizeLinear(op(DequantizeLinear(x))) with one scale and zero point; op moves elements or picks the largest
//          (a view, Transpose, Slice, Split, Gather, Concat of inputs dequantized alike, MaxPool, nearest Resize, Pad) or is left out
// After    op(x) on the integers; Pad by its constant as QuantizeLinear gives it
// Unless   the two scales or zero points differ, or are computed apart; what Pad puts around is computed
//          a result of op has another reader, or is a graph output
#include <algorithm>

#include "fuse/match/bypass.h"
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"
#include "ops/core/facts.h"

namespace smelt::fuse {
namespace {

/// Whether n does to integers of the type what it does to the numbers that they stand for.
bool moves_elements(const Node& n, DType type) {
  if (n.domain != onnx_domain || (n.outputs.size() != 1 && n.op != "Split")) return false;
  if (n.op == "Resize")  // a crop may reach outside, where a number of the model's is
    return n.get_string("mode", "nearest") == "nearest" && bits(type) >= 8 &&
           n.get_string("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize";
  if (n.op == "Pad") return n.in(1) != ValueId::none && bits(type) >= 8;
  if (n.op == "MaxPool") return type == DType::i8 || type == DType::u8;
  const ops::Elements elements = ops::facts(n).elements;
  return elements == ops::Elements::in_order || elements == ops::Elements::moved;
}

/// Whether n writes numbers that are not its input's.
bool pads_by_constant(const Node& n) { return n.op == "Pad" && n.get_string("mode", "constant") == "constant"; }

/// Pad's constant in the integers of what quantises its result; 0 stands for the zero point.
ValueId padded_by(Graph& g, ValueId constant, const Node& quantize) {
  if (constant == ValueId::none) return quantize.in(2);
  Node made = quantize;
  made.name = quantize.name + "_padding";
  made.inputs[0] = constant;
  made.outputs = {g.add_value(made.name, g.value(quantize.out()).type, g.value(constant).shape)};
  return g.node(g.add_node(std::move(made))).out();
}

}  // namespace

Outcome quantized_movement(const Graph& g, NodeId q) {
  const Node& node = g.node(q);
  if (!node.is("QuantizeLinear")) return NotHere{};
  NodeId op = g.producer(q, 0), first;
  const bool direct = made_by(g, node.in(0), "DequantizeLinear", &first);
  if (op == NodeId::none || (!direct && !moves_elements(g.node(op), g.value(node.out()).type))) return NotHere{};
  const size_t moved = direct ? 0 : g.node(op).op == "Concat" ? g.node(op).inputs.size() : 1;
  if (!direct && !made_by(g, g.node(op).in(0), "DequantizeLinear", &first)) return NotHere{};

  const auto check = [&](NodeId d, NodeId by) -> std::optional<Refusal> {
    const Node& quantize = g.node(by);
    const DType type = g.value(quantize.out()).type;
    if (size_of(g, quantize.in(1)) != 1)
      return refuse(Reason::wrong_shape, by, "{} has {} scales", describe(g, by), size_of(g, quantize.in(1)));
    if (!same_constant(g, g.node(d).in(1), quantize.in(1)) || !same_constant(g, g.node(d).in(2), quantize.in(2)))
      return refuse(Reason::wrong_value, d, "{} and {} differ in scale or zero point", describe(g, d), describe(g, by));
    if (g.value(g.node(d).in(0)).type != type)
      return refuse(Reason::wrong_type, d, "{} takes {}, {} gives {}", describe(g, d), name(g.value(g.node(d).in(0)).type),
                    describe(g, by), name(type));
    return {};
  };
  if (direct) {
    if (auto no = check(first, q)) return *no;
    if (auto no = cannot_bypass(g, q, g.node(first).in(0))) return *no;
    return bypass(g, q, g.node(first).in(0));
  }
  std::vector<ValueId> inputs = g.node(op).inputs;
  std::vector<NodeId> nodes;
  for (size_t i = 0; i < moved; ++i) {
    NodeId d;
    if (!made_by(g, inputs[i], "DequantizeLinear", &d))
      return refuse(Reason::wrong_producer, g.value(inputs[i]).producer, "{} is not dequantized", g.value(inputs[i]).name);
    if (auto no = check(d, q)) return *no;
    inputs[i] = g.node(d).in(0);
    nodes.push_back(d);
  }
  nodes.push_back(op);
  const Node& moving = g.node(op);
  if (pads_by_constant(moving) && moving.in(2) != ValueId::none && !g.value(moving.in(2)).is_constant())
    return refuse(Reason::not_constant, op, "{} pads by a number that is computed", describe(g, op));
  // Each result is quantized as its input was.
  std::vector<NodeId> quantizers;
  std::vector<ValueId> outputs;
  for (ValueId made : g.node(op).outputs) {
    const auto only = reader_of(g, made);
    if (!only) return only.refusal();
    if (!g.node(*only).is("QuantizeLinear"))
      return refuse(Reason::extra_reader, *only, "{} is read by {}", g.value(made).name, describe(g, *only));
    if (auto no = check(nodes[0], *only)) return *no;
    quantizers.push_back(*only);
    outputs.push_back(g.node(*only).out());
  }
  nodes.insert(nodes.end(), quantizers.begin(), quantizers.end());
  return Match{in_order(g, nodes), [op, quantizers, inputs, outputs](Graph& graph) {
                 Node made = graph.node(op);
                 made.inputs = inputs;
                 made.outputs = outputs;
                 if (pads_by_constant(made)) {
                   made.inputs.resize(std::max<size_t>(made.inputs.size(), 3), ValueId::none);
                   made.inputs[2] = padded_by(graph, made.inputs[2], graph.node(quantizers[0]));
                 }
                 for (NodeId q : quantizers) {
                   made.sources.insert(made.sources.end(), graph.node(q).sources.begin(), graph.node(q).sources.end());
                   graph.remove_node(q);
                 }
                 graph.remove_node(op);
                 return graph.add_node(std::move(made));
               }};
}

}  // namespace smelt::fuse
