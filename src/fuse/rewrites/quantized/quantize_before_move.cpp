// Before   QuantizeLinear(op(x)), QuantizeLinear(f(op(x))) with one scale; op puts all elements of x elsewhere (a view, Transpose,
//          DepthToSpace, SpaceToDepth), f is up to seven pointwise nodes of one tensor and of numbers: DequantizeLinear, Gelu
// After    op(QuantizeLinear(x)), op(QuantizeLinear(f(x))): bytes are moved, and whatever makes x can compute and quantise it
// Unless   what op or f gives has another reader, or is a graph output
//          x is given from outside
#include <algorithm>

#include "fuse/match/compose.h"
#include "fuse/match/pointwise.h"
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

bool moves_all(const Node& n) {
  constexpr std::string_view ops[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "DepthToSpace", "SpaceToDepth"};
  return n.domain == onnx_domain && std::ranges::find(ops, n.op) != std::end(ops);
}

bool quantizes(const Node& n) { return n.is("QuantizeLinear") || n.is("DequantizeLinear"); }

/// What a pointwise node reads, where that is one tensor beside numbers; none where it is not.
ValueId tensor_of(const Graph& g, NodeId n) {
  if (quantizes(g.node(n))) return g.node(n).in(0);
  if (not_pointwise(g, n) || g.node(n).outputs.size() != 1) return ValueId::none;
  const std::vector<ValueId> operands = operands_of(g, n);
  return operands.size() == 1 ? operands[0] : ValueId::none;
}

/// A number of more axes than x would give the result as many; a scale does not.
std::optional<Refusal> raises(const Graph& g, NodeId n, ValueId x) {
  if (quantizes(g.node(n))) return std::nullopt;
  for (const ValueId v : g.node(n).inputs)
    if (v != ValueId::none && g.value(v).is_constant() && static_cast<int>(g.value(v).constant.shape().size()) > rank(g, x))
      return refuse(Reason::wrong_rank, n, "{} has more axes than {}", g.value(v).name, g.value(x).name);
  return std::nullopt;
}

}  // namespace

Outcome quantize_before_move(const Graph& g, NodeId q) {
  const Node& node = g.node(q);
  if (!node.is("QuantizeLinear")) return NotHere{};
  constexpr size_t most = 8;
  std::vector<NodeId> chain{q};
  std::vector<ValueId> reads{node.in(0)};  // of the chain's nodes
  NodeId op = g.value(reads[0]).producer;
  while (op != NodeId::none && !moves_all(g.node(op)) && chain.size() < most) {
    const ValueId from = tensor_of(g, op);
    if (from == ValueId::none) return NotHere{};
    chain.insert(chain.begin(), op);
    reads.insert(reads.begin(), from);
    op = g.value(from).producer;
  }
  if (op == NodeId::none || !moves_all(g.node(op))) return NotHere{};
  const ValueId x = g.node(op).in(0);
  if (g.value(x).producer == NodeId::none) return NotHere{};  // given, or constant
  for (const NodeId n : chain) {
    if (auto no = not_pointwise(g, n)) return no->at(describe(g, n));  // a scale for each channel
    if (const auto no = raises(g, n, x)) return *no;
  }
  for (const ValueId v : reads)
    if (const auto only = reader_of(g, v); !only) return only.refusal();
  std::vector<NodeId> nodes{op};
  nodes.insert(nodes.end(), chain.begin(), chain.end());
  return Match{nodes, [op, chain, reads, x](Graph& graph) {
                 const Node move = graph.node(op);
                 const ValueId y = graph.node(chain.back()).out();
                 std::vector<Node> copies;
                 for (const NodeId n : chain) copies.push_back(graph.node(n));
                 for (auto n = chain.rbegin(); n != chain.rend(); ++n) graph.remove_node(*n);
                 graph.remove_node(op);
                 ValueId v = x;
                 for (size_t i = 0; i < copies.size(); ++i) {
                   Node& n = copies[i];
                   std::ranges::replace(n.inputs, reads[i], v);
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
