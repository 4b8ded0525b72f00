// Before   Add(Reshape(y), r), y a matrix product's or a convolution's, perhaps with its bias (attention's last product, of sequences first)
// After    Reshape(Add(y, Reshape(r))), so that the product adds r as it stores its result
// Unless   the Reshape has another reader or is a graph output
//          one node alone reads the sum: a normalisation does, and can add r itself
//          r broadcasts, the last extent changes, or more than one extent of y or of the sum is not known
#include <algorithm>

#include "fuse/match/extents.h"
#include "fuse/match/match.h"
#include "fuse/match/moved.h"
#include "fuse/match/product_behind.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// The extents as Reshape takes them; nothing where it cannot work them out.
std::optional<std::vector<int64_t>> reshape_to(const Graph& g, ValueId v) {
  const std::optional<SymShape>& shape = g.value(v).shape;
  if (!shape || shape->empty()) return std::nullopt;
  std::vector<int64_t> to;
  for (const Dim& d : *shape) to.push_back(d.known() ? d.value : -1);
  if (std::ranges::count(to, -1) > 1 || std::ranges::count(to, 0) > 0 || to.back() < 0) return std::nullopt;
  return to;
}

ValueId extents_of(Graph& g, NodeId n, const std::vector<int64_t>& to) {
  return g.add_constant(g.node(n).name + "_shape", Tensor::of({static_cast<int64_t>(to.size())}, to));
}

}  // namespace

Outcome sum_of_reshaped(const Graph& g, NodeId add) {
  const Node& n = g.node(add);
  if (!n.is("Add")) return NotHere{};
  NodeId reshape;
  size_t at = 0;
  for (; at < 2; ++at)
    if (made_by(g, n.in(at), "Reshape", &reshape) && product_behind(g, g.node(reshape).in(0)) != NodeId::none) break;
  if (at == 2) return NotHere{};
  const ValueId sum = n.out(), r = n.in(1 - at), y = g.node(reshape).in(0);
  if (const auto only = reader_of(g, n.in(at)); !only) return only.refusal();
  if (!g.is_output(sum) && g.readers(sum).size() < 2)
    return refuse(Reason::not_profitable, add, "one node alone reads {}", g.value(sum).name);
  for (const ValueId v : {n.in(at), r})
    if (!same_shape(g, v, sum))
      return refuse(Reason::wrong_shape, add, "{} is not proven to have the shape of the sum {}", g.value(v).name,
                    g.value(sum).name);
  const auto from = reshape_to(g, y), to = reshape_to(g, sum);
  if (!from || !to)
    return refuse(Reason::unknown_shape, add, "the extents of {} or {} are not known", g.value(y).name, g.value(sum).name);
  if (from->back() != to->back())
    return refuse(Reason::wrong_shape, reshape, "{} has {} columns, {} {}", g.value(y).name, from->back(), g.value(sum).name,
                  to->back());
  return Match{{reshape, add}, [add, reshape, r, y, from = *from, to = *to](Graph& graph) {
                 Node flat = moved_in_place_of(graph, add, "Reshape", {r, extents_of(graph, add, from)}, shape_of(graph, y));
                 const ValueId residual = flat.outputs[0];
                 graph.add_node(std::move(flat));
                 Node sums = moved_in_place_of(graph, add, "Add", {y, residual}, shape_of(graph, y));
                 const ValueId made = sums.outputs[0];
                 graph.add_node(std::move(sums));
                 graph.edit(add).op = "Reshape";
                 graph.edit(add).attrs.clear();
                 graph.set_inputs(add, {made, extents_of(graph, add, to)});
                 graph.merge_sources(add, reshape);
                 graph.remove_node(reshape);  // what it read has one reader now
                 return add;
               }};
}

}  // namespace smelt::fuse
