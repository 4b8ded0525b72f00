// Before   ai.smelt.QLinearConv or QLinearMatMul and what reads it: activation, Add of another dequantized tensor, QuantizeLinear
// After    the same operator with a program that does all of it in f32, rounds and saturates once, and gives 8 bits
// Unless   the result has another reader, or is a graph output
//          an operator is not pointwise, or quantizes with a scale for each channel
#include "fuse/epilogue.h"
#include "fuse/quantized.h"
#include "fuse/rewrites.h"
#include "graph/fused.h"

namespace smelt::fuse {

Outcome qlinear_epilogue(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (!node.is("QLinearConv", smelt_domain) && !node.is("QLinearMatMul", smelt_domain)) return NotHere{};
  if (!is_real(g.value(node.out()).type)) return NotHere{};            // it ends in a QuantizeLinear already
  const Base base = base_of(g, n);
  Epilogue e = absorb(g, base);
  std::optional<Rejected> stopped = e.stopped;

  const auto reader = reader_of(g, e.result);
  if (const auto* no = std::get_if<Rejected>(&reader)) stopped = *no;
  else if (const NodeId tail = std::get<NodeId>(reader); g.node(tail).is("QuantizeLinear") && g.node(tail).in(0) == e.result) {
    stopped = not_pointwise(g, tail);
    if (!stopped) {
      e.nodes.push_back(tail);
      e.result = g.node(tail).out();
    }
  }
  if (e.nodes.empty()) return node.program ? Outcome(NotHere{}) : Outcome(*stopped);

  // Operands are read as the 8 bits they come from; their DequantizeLinear stays for its other readers.
  std::vector<NodeId> all = e.nodes;
  const std::vector<ValueId> operands = compose(g, &base, e.nodes, {&e.result, 1}).operands;
  for (ValueId v : operands) {
    NodeId maker;
    if (!made_by(g, v, "DequantizeLinear", &maker) || not_pointwise(g, maker)) continue;
    all.insert(all.begin(), maker);
    if (g.only_reader(v) != NodeId::none) e.nodes.insert(e.nodes.begin(), maker);
  }
  e.composition = compose(g, &base, all, {&e.result, 1});
  Node fused = node;
  fused.order = 0;
  fused.sources.clear();
  const size_t first = first_operand(node);
  fused.inputs.resize(first, ValueId::none);
  return with_epilogue(g, {n}, std::move(fused), first, e);
}

}  // namespace smelt::fuse
