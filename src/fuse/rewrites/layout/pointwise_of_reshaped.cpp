// Before   f(Reshape(y)), y a matrix product's or a convolution's floats, f a pointwise node of it and of numbers, or of a constant
//          row that is added to the last axis of both (ONNX Runtime's graphs: a Reshape on either side of each Gemm)
// After    Reshape(f(y)), so that the product computes f as it stores its result
// Unless   the Reshape has another reader or is a graph output
//          f is read with a tensor beside y, or a number of it has more axes than y
#include <algorithm>

#include "fuse/match/extents.h"
#include "fuse/match/match.h"
#include "fuse/match/moved.h"
#include "fuse/match/pointwise.h"
#include "fuse/match/product_behind.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// The last extent, where it is known.
std::optional<int64_t> columns(const Graph& g, ValueId v) {
  const std::optional<SymShape>& shape = g.value(v).shape;
  if (!shape || shape->empty() || !shape->back().known()) return std::nullopt;
  return shape->back().value;
}

/// Whether what f reads beside y is the same for y as for what it is reshaped to.
std::optional<Refusal> differs(const Graph& g, NodeId f, ValueId operand, ValueId y, ValueId reshaped) {
  const Value& v = g.value(operand);
  if (!v.is_constant()) return refuse(Reason::not_constant, f, "{} is read beside {}", v.name, g.value(reshaped).name);
  const Shape& shape = v.constant.shape();
  if (static_cast<int>(shape.size()) > rank(g, y))
    return refuse(Reason::wrong_rank, f, "{} has more axes than {}", v.name, g.value(y).name);
  if (v.constant.size() == 1) return std::nullopt;
  const bool is_row = std::all_of(shape.begin(), shape.end() - 1, [](int64_t n) { return n == 1; });
  if (!is_row || columns(g, y) != columns(g, reshaped) || columns(g, y) != shape.back())
    return refuse(Reason::wrong_shape, f, "{} is no row of {}", v.name, g.value(y).name);
  return std::nullopt;
}

}  // namespace

Outcome pointwise_of_reshaped(const Graph& g, NodeId f) {
  const Node& n = g.node(f);
  size_t at = 0;
  NodeId reshape = NodeId::none;
  while (at < n.inputs.size() && !made_by(g, n.in(at), "Reshape", &reshape)) ++at;
  if (at == n.inputs.size() || n.outputs.size() != 1 || not_pointwise(g, f)) return NotHere{};
  const ValueId reshaped = n.in(at), y = g.node(reshape).in(0);
  if (!is_real(g.value(y).type) || product_behind(g, y) == NodeId::none || rank(g, y) < 1) return NotHere{};
  if (const auto only = reader_of(g, reshaped); !only) return only.refusal();
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (i == at || n.in(i) == ValueId::none) continue;
    if (n.in(i) == reshaped) continue;  // twice
    if (auto no = differs(g, f, n.in(i), y, reshaped)) return *no;
  }
  return Match{
      {reshape, f}, [f, reshape, y, reshaped](Graph& graph) {
        Node move = graph.node(reshape), own = graph.node(f);
        const ValueId result = own.out();
        graph.remove_node(f);
        graph.remove_node(reshape);
        for (ValueId& v : own.inputs)
          if (v == reshaped) v = y;
        own.outputs = {graph.add_value(own.name + "_before_" + move.name, graph.value(result).type, graph.value(y).shape)};
        own.order = move.order;
        move.inputs[0] = own.outputs[0];
        move.outputs = {result};
        graph.add_node(std::move(own));
        return graph.add_node(std::move(move));
      }};
}

}  // namespace smelt::fuse
