#include "fuse/match/moved.h"

#include <numeric>
#include <utility>

#include "base/value_of.h"

namespace smelt::fuse {

const SymShape& shape_of(const Graph& g, ValueId v) { return value_of(g.value(v).shape, "the shape of a value to be moved"); }

Node moved_in_place_of(Graph& g, NodeId of, std::string op, std::vector<ValueId> inputs, SymShape shape) {
  Node n;
  n.op = std::move(op);
  n.opset = g.node(of).opset;
  n.order = g.node(of).order;
  n.name = g.node(of).name;
  n.sources = g.node(of).sources;
  n.outputs = {g.add_value("", g.value(inputs[0]).type, std::move(shape))};
  n.inputs = std::move(inputs);
  return n;
}

std::vector<int64_t> swapped_axes(int rank) {
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return perm;
}

SymShape with_last_two_swapped(SymShape s) {
  std::swap(s[s.size() - 1], s[s.size() - 2]);
  return s;
}

ValueId add_transpose(Graph& g, NodeId of, ValueId x, std::vector<int64_t> perm, SymShape shape) {
  Node n = moved_in_place_of(g, of, "Transpose", {x}, std::move(shape));
  n.attrs["perm"] = std::move(perm);
  const ValueId y = n.outputs[0];
  g.add_node(std::move(n));
  return y;
}

ValueId add_swap(Graph& g, NodeId of, ValueId x) {
  const SymShape shape = shape_of(g, x);
  return add_transpose(g, of, x, swapped_axes(static_cast<int>(shape.size())), with_last_two_swapped(shape));
}

}  // namespace smelt::fuse
