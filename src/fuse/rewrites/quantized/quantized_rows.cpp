// Before   ai.smelt.QLinearMatMul(a, Transpose(x)), whose Transpose moves x's last axis to the last but one
// After    the same with transB over a Transpose that leaves x's last axis in its place, or over x: that need not move
// Unless   the Transpose has another reader or its result is a graph output
#include <algorithm>

#include "fuse/match/moved.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome quantized_rows(const Graph& g, NodeId id) {
  const Node& product = g.node(id);
  NodeId transpose = NodeId::none;
  if (!product.is("QLinearMatMul", smelt_domain) || !made_by(g, product.in(1), "Transpose", &transpose)) return NotHere{};
  const ValueId x = g.node(transpose).in(0);
  const std::vector<int64_t> perm = g.node(transpose).get_ints("perm");
  const size_t rank = perm.size();
  if (rank < 2 || product.get_int("transB", 0) != 0 || perm[rank - 2] != static_cast<int64_t>(rank) - 1) return NotHere{};
  const std::vector<NodeId> nodes{transpose, id};
  if (auto no = escapes(g, nodes, {product.out()})) return *no;
  if (!g.value(product.in(1)).shape)
    return refuse(Reason::unknown_shape, transpose, "the rank of {} is not known", g.value(product.in(1)).name);

  return Match{nodes, [nodes, id, transpose, x, perm](Graph& graph) {
                 Node fused = graph.node(id);
                 std::vector<int64_t> turned = perm;
                 std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
                 fused.attrs["transB"] = int64_t{1};
                 if (std::ranges::is_sorted(turned)) {
                   fused.inputs[1] = x;
                   return replace(graph, nodes, fused);
                 }
                 Node rows = moved_in_place_of(graph, transpose, "Transpose", {x},
                                               with_last_two_swapped(shape_of(graph, graph.node(transpose).out())));
                 rows.attrs["perm"] = turned;
                 fused.inputs[1] = rows.outputs[0];
                 const NodeId made = replace(graph, nodes, fused);
                 graph.add_node(rows);
                 return made;
               }};
}

}  // namespace smelt::fuse
