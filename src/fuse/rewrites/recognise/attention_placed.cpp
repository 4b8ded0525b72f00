#include "fuse/rewrites/recognise/attention_placed.h"

#include "fuse/match/moved.h"

namespace smelt::fuse {
namespace {

/// The places of the axes of 1 before `own` others, so that there are four.
ValueId leading_axes(Graph& g, int own) {
  const std::vector<int64_t> axes = own == 3 ? std::vector<int64_t>{0} : std::vector<int64_t>{0, 1};
  return g.add_constant("", Tensor::of({static_cast<int64_t>(axes.size())}, axes));
}

SymShape of_four_axes(SymShape shape) {
  shape.insert(shape.begin(), 4 - shape.size(), Dim(1));
  return shape;
}

/// Adds the node, and gives its result.
ValueId added(Graph& g, Node n) {
  const ValueId y = n.outputs[0];
  g.add_node(std::move(n));
  return y;
}

/// The node that makes `result` of a value that is still to be made, its input.
Node behind(Graph& g, NodeId of, std::string op, ValueId result, SymShape shape) {
  Node n = moved_in_place_of(g, of, std::move(op), {result}, std::move(shape));
  std::swap(n.inputs[0], n.outputs[0]);
  return n;
}

}  // namespace

NodeId PlacedAttention::operator()(Graph& g) const {
  Node n = fused;
  const NodeId last = nodes.back();
  if (turn_values) n.inputs[2] = add_swap(g, last, n.inputs[2]);
  for (size_t i = 0; i < 3 && axes < 4; ++i)
    n.inputs[i] = added(
        g, moved_in_place_of(g, last, "Unsqueeze", {n.inputs[i], leading_axes(g, axes)}, of_four_axes(shape_of(g, n.inputs[i]))));
  std::vector<Node> after;
  SymShape shape = g.value(n.outputs[0]).shape.value_or(SymShape(static_cast<size_t>(axes)));
  if (turn_result) {
    shape = with_last_two_swapped(shape);
    after.push_back(behind(g, last, "Transpose", n.outputs[0], shape));
    after.back().attrs["perm"] = swapped_axes(axes);
    n.outputs[0] = after.back().inputs[0];
  }
  if (axes < 4) {
    after.push_back(behind(g, last, "Squeeze", n.outputs[0], of_four_axes(shape)));
    after.back().inputs.push_back(leading_axes(g, axes));
    n.outputs[0] = after.back().inputs[0];
  }
  const NodeId placed = replace(g, nodes, std::move(n));
  for (Node& m : after) g.add_node(std::move(m));
  return placed;
}

}  // namespace smelt::fuse
