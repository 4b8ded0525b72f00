// Before   Reshape(Transpose(Reshape(x))): leading axes merged, the last two swapped, leading axes split again, as
//          exporters write the transposed keys of attention; the first Reshape may be absent
// After    a Transpose of the last two axes; before it a Reshape where the leading axes come out otherwise
// Unless   a reshape touches the last two axes, or may
//          the new leading axes are not known numbers and are not x's
//          what is between has another reader or is a graph output
#include "fuse/match/extents.h"
#include "fuse/match/product_parts.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome transpose_of_merged_axes(const Graph& g, NodeId split) {
  NodeId swap;
  if (!g.node(split).is("Reshape") || !made_by(g, g.node(split).in(0), "Transpose", &swap) || !swaps_last_two(g, swap))
    return NotHere{};
  const ValueId y = g.node(split).out(), swapped = g.node(swap).out();
  if (g.value(y).is_constant()) return NotHere{};
  ValueId x = g.node(swap).in(0);
  std::vector<NodeId> nodes{swap, split};
  if (NodeId merge; made_by(g, x, "Reshape", &merge) && g.only_reader(x) != NodeId::none) {
    const ValueId before = g.node(merge).in(0);
    auto from = extents(g, before), to = extents(g, x);
    if (from && to && from->size() >= 2 && to->size() >= 2 && from->back() == to->back() &&
        (*from)[from->size() - 2] == (*to)[to->size() - 2]) {
      nodes.insert(nodes.begin(), merge);
      x = before;
    }
  }
  if (auto no = escapes(g, nodes, {y})) return *no;
  auto from = extents(g, x), middle = extents(g, swapped), to = extents(g, y);
  if (!from || !middle || !to)
    return refuse(Reason::unknown_shape, split, "the rank of {} is not known", g.value(!from ? x : y).name);
  const size_t r = to->size();
  if (r < 2 || middle->size() < 2) return NotHere{};
  if (to->back() != middle->back() || (*to)[r - 2] != (*middle)[middle->size() - 2])
    return NotHere{};  // it does more than split leading axes

  Extents target(to->begin(), to->end() - 2);
  target.push_back(to->back());
  target.push_back((*to)[r - 2]);
  const bool same = target == *from;
  if (same && nodes.size() == 2) return NotHere{};  // a Reshape that changes nothing
  std::optional<Tensor> shape;
  if (!same) {
    Shape numbers;
    for (const Extent& e : target) {
      if (!e.known()) return refuse(Reason::unknown_shape, split, "{} {} is not known", g.value(y).name, to_string(*to));
      numbers.push_back(e.number);
    }
    shape = Tensor::of<int64_t>({static_cast<int64_t>(r)}, numbers);
  }
  std::vector<int64_t> perm;
  for (size_t i = 0; i < r; ++i) perm.push_back(static_cast<int64_t>(i + 2 == r ? i + 1 : i + 1 == r ? i - 1 : i));
  const SymShape unswapped = [&] {
    SymShape s = *g.value(y).shape;
    std::swap(s[r - 2], s[r - 1]);
    return s;
  }();
  return Match{nodes, [nodes, x, y, shape, perm, unswapped](Graph& graph) {
                 Node transpose;
                 transpose.op = "Transpose";
                 transpose.opset = graph.node(nodes.back()).opset;
                 transpose.attrs["perm"] = perm;
                 transpose.inputs = {x};
                 transpose.outputs = {y};
                 const NodeId first = nodes.front();
                 std::optional<Node> reshape;
                 if (shape) {
                   reshape.emplace();
                   reshape->op = "Reshape";
                   reshape->opset = transpose.opset;
                   reshape->order = graph.node(first).order;
                   reshape->name = graph.node(first).name;
                   reshape->sources = graph.node(first).sources;
                   reshape->inputs = {x, graph.add_constant("", *shape)};
                   reshape->outputs = {graph.add_value("", graph.value(x).type, unswapped)};
                   transpose.inputs = reshape->outputs;
                 }
                 const NodeId made = replace(graph, nodes, transpose);
                 if (reshape) graph.add_node(*reshape);
                 return made;
               }};
}

}  // namespace smelt::fuse
