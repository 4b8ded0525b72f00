// Before   QuantizeLinear(Concat(DequantizeLinear(x1), …)), scales that differ
// After    Concat(QuantizeLinear(DequantizeLinear(x1)), …): a table of 256 entries for each input, and nothing for equal scales
// Unless   an input is not dequantized from 8 bits, or the result is not quantized with one scale
//          the Concat's result has another reader, or is a graph output
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome quantized_concat(const Graph& g, NodeId q) {
  const Node& node = g.node(q);
  NodeId concat;
  if (!node.is("QuantizeLinear") || !made_by(g, node.in(0), "Concat", &concat)) return NotHere{};
  if (size_of(g, node.in(1)) != 1)
    return refuse(Reason::wrong_shape, q, "{} has {} scales", describe(g, q), size_of(g, node.in(1)));
  const std::vector<ValueId> inputs = g.node(concat).inputs;
  std::vector<NodeId> nodes;
  for (ValueId v : inputs) {
    const auto d = dequantized(g, v);
    if (!d) return d.refusal();
    nodes.push_back(d->node);
  }
  const auto only = reader_of(g, node.in(0));
  if (!only) return only.refusal();
  nodes.push_back(concat);
  nodes.push_back(q);
  return Match{in_order(g, nodes), [q, concat, inputs](Graph& graph) {
                 const Node quantize = graph.node(q);
                 Node joined = graph.node(concat);
                 const DType type = graph.value(quantize.out()).type;
                 joined.sources.insert(joined.sources.end(), quantize.sources.begin(), quantize.sources.end());
                 joined.outputs = quantize.outputs;
                 graph.remove_node(q);
                 graph.remove_node(concat);
                 for (size_t i = 0; i < inputs.size(); ++i) {
                   const Value x = graph.value(inputs[i]);
                   Node own = quantize;
                   own.name = quantize.name + "_" + std::to_string(i);
                   own.inputs[0] = inputs[i];
                   own.outputs = {graph.add_value(x.name + "_for_" + joined.name, type, x.shape)};
                   joined.inputs[i] = own.outputs[0];
                   graph.add_node(std::move(own));
                 }
                 return graph.add_node(std::move(joined));
               }};
}

}  // namespace smelt::fuse
