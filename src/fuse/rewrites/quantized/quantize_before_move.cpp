// Before   QuantizeLinear(op(x)) or QuantizeLinear(DequantizeLinear(op(x))) with one scale; op puts all elements of x elsewhere
//          (a view, Transpose, DepthToSpace, SpaceToDepth)
// After    op(QuantizeLinear(x)), op(QuantizeLinear(DequantizeLinear(x))): bytes are moved, and whatever makes x can quantise it
// Unless   what op or DequantizeLinear gives has another reader, or is a graph output
//          x is given from outside
#include <algorithm>

#include "fuse/match/pointwise.h"
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

bool moves_all(const Node& n) {
  constexpr std::string_view ops[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "DepthToSpace", "SpaceToDepth"};
  return n.domain == onnx_domain && std::ranges::find(ops, n.op) != std::end(ops);
}

}  // namespace

Outcome quantize_before_move(const Graph& g, NodeId q) {
  const Node& node = g.node(q);
  if (!node.is("QuantizeLinear")) return NotHere{};
  NodeId dequantize = NodeId::none;
  const bool again = made_by(g, node.in(0), "DequantizeLinear", &dequantize);
  const NodeId op = g.producer(again ? dequantize : q, 0);
  if (op == NodeId::none || !moves_all(g.node(op))) return NotHere{};
  const ValueId x = g.node(op).in(0);
  if (g.value(x).producer == NodeId::none) return NotHere{};  // given, or constant
  std::vector<NodeId> chain{q};
  if (again) chain.insert(chain.begin(), dequantize);
  for (const NodeId n : chain) {
    if (auto no = not_pointwise(g, n)) return no->at(describe(g, n));  // a scale for each channel
    const auto only = reader_of(g, g.node(n).in(0));
    if (!only) return only.refusal();
  }
  std::vector<NodeId> nodes{op};
  nodes.insert(nodes.end(), chain.begin(), chain.end());
  return Match{nodes, [op, chain, x](Graph& graph) {
                 const Node move = graph.node(op);
                 const ValueId y = graph.node(chain.back()).out();
                 std::vector<Node> copies;
                 for (const NodeId n : chain) copies.push_back(graph.node(n));
                 for (auto n = chain.rbegin(); n != chain.rend(); ++n) graph.remove_node(*n);
                 graph.remove_node(op);
                 ValueId v = x;
                 for (Node& n : copies) {
                   n.inputs[0] = v;
                   v = graph.add_value(n.name + "_before_" + move.name, graph.value(n.out()).type, graph.value(x).shape);
                   n.outputs = {v};
                   n.order = move.order;
                   graph.add_node(n);
                 }
                 Node moved = move;
                 moved.inputs[0] = v;
                 moved.outputs = {y};
                 return graph.add_node(std::move(moved));
               }};
}

}  // namespace smelt::fuse
