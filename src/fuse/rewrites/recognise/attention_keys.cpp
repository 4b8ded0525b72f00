// Before   Attention with k_transposed, whose k is Transpose(x), or Reshape(Transpose(x)) that keeps the last two axes
// After    the same without k_transposed: the Transpose leaves x's last axis in its place; a key's elements lie side by side
// Unless   x's last axis does not become k's last but one
//          the reshape touches the last two axes, or may; more than one of its extents is not known
//          what is between has another reader or is a graph output
#include <algorithm>

#include "fuse/match/extents.h"
#include "fuse/match/moved.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
Outcome attention_keys(const Graph& g, NodeId id) {
  const Node& attention = g.node(id);
  if (!attention.is("Attention", smelt_domain) || attention.get_int("k_transposed", 0) == 0) return NotHere{};
  const ValueId k = attention.in(1);
  NodeId reshape = NodeId::none, transpose = NodeId::none;
  const ValueId moved = made_by(g, k, "Reshape", &reshape) ? g.node(reshape).in(0) : k;
  if (!made_by(g, moved, "Transpose", &transpose)) return NotHere{};
  const std::optional<SymShape>&shape = g.value(moved).shape, &key_shape = g.value(k).shape;
  if (!key_shape || !shape)
    return refuse(Reason::unknown_shape, transpose, "the rank of {} is not known", g.value(key_shape ? moved : k).name);
  const size_t rank = shape->size();
  std::vector<int64_t> perm = g.node(transpose).get_ints("perm");
  if (rank < 2 || perm.size() != rank) return NotHere{};
  if (perm[rank - 2] != static_cast<int64_t>(rank) - 1)
    return refuse(Reason::wrong_axis, transpose, "the last axis of {} does not become the depth of the keys",
                  g.value(g.node(transpose).in(0)).name);
  std::swap(perm[rank - 1], perm[rank - 2]);

  std::vector<NodeId> nodes{transpose};
  std::vector<int64_t> target;
  if (reshape != NodeId::none) {
    nodes.push_back(reshape);
    const auto from = extents(g, moved), to = extents(g, k);
    if (!from || !to || from->back() != to->back() || (*from)[rank - 2] != (*to)[to->size() - 2])
      return refuse(Reason::wrong_shape, reshape, "{} is not proven to keep the last two axes", describe(g, reshape));
    for (const Extent& e : *to) target.push_back(e.known() ? e.number : -1);
    std::swap(target[target.size() - 1], target[target.size() - 2]);
    if (std::ranges::count(target, -1) > 1)
      return refuse(Reason::unknown_shape, reshape, "{} has {} unknown extents, a Reshape can work out one", to_string(*to),
                    std::ranges::count(target, -1));
  }
  nodes.push_back(id);
  if (auto no = escapes(g, nodes, {attention.out()})) return *no;

  return Match{nodes, [nodes, id, transpose, reshape, perm, target](Graph& graph) {
                 Node fused = graph.node(id);
                 const ValueId of_reshape = fused.in(1);
                 Node turned = moved_in_place_of(graph, transpose, "Transpose", {graph.node(transpose).in(0)},
                                                 with_last_two_swapped(shape_of(graph, graph.node(transpose).out())));
                 turned.attrs["perm"] = perm;
                 fused.inputs[1] = turned.outputs[0];
                 std::optional<Node> split;
                 if (reshape != NodeId::none) {
                   const Tensor shape = Tensor::of<int64_t>({static_cast<int64_t>(target.size())}, target);
                   split = moved_in_place_of(graph, reshape, "Reshape", {turned.outputs[0], graph.add_constant("", shape)},
                                             with_last_two_swapped(shape_of(graph, of_reshape)));
                   fused.inputs[1] = split->outputs[0];
                 }
                 fused.attrs.erase("k_transposed");
                 const NodeId made = replace(graph, nodes, fused);
                 graph.add_node(turned);
                 if (split) graph.add_node(*split);
                 return made;
               }};
}

}  // namespace smelt::fuse
