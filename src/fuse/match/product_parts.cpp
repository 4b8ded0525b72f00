#include "fuse/match/product_parts.h"

#include "fuse/match/extents.h"

namespace smelt::fuse {
namespace {

/// Whether `repeated` is v with axis 2 repeated; how often, or 0.
int64_t repetition(const Graph& g, NodeId id, const Extents& from) {
  const Node& n = g.node(id);
  auto by = shape_values(g, n.in(1));
  if (!by || by->size() != 5) return 0;
  for (size_t i = 0; i < 5; ++i) {
    const Extent& e = (*by)[i];
    if (i == 2) continue;
    if (!e.is(1) && !(n.is("Expand") && e == from[i])) return 0;
  }
  return (*by)[2].known() ? (*by)[2].number : 0;
}

}  // namespace

bool swaps_last_two(const Graph& g, NodeId transpose) {
  const int r = rank(g, g.node(transpose).in(0));
  if (r < 2) return false;
  auto perm = g.node(transpose).get_ints("perm");
  if (perm.empty()) return r == 2;
  if (static_cast<int>(perm.size()) != r) return false;
  for (int i = 0; i < r - 2; ++i)
    if (perm[static_cast<size_t>(i)] != i) return false;
  return perm[static_cast<size_t>(r - 2)] == r - 1;
}

Peeled peel_scale_and_transpose(const Graph& g, ValueId v, bool transposes) {
  Peeled p;
  p.value = v;
  for (int step = 0; step < 6; ++step) {
    NodeId n = g.value(p.value).producer;
    if (n == NodeId::none) break;
    const Node& node = g.node(n);
    p.alone = p.alone && g.only_reader(p.value) != NodeId::none;
    ValueId from = node.in(0);
    if (transposes && node.is("Transpose") && swaps_last_two(g, n)) {
      p.transposed = !p.transposed;
    } else if ((node.is("Mul") || node.is("Div")) && p.alone) {
      auto c = constant_operand(g, n);
      if (!c || rank(g, c->second) != rank(g, p.value)) break;
      if (node.is("Div") && (c->second != node.in(0) || c->first == 0)) break;
      p.scale *= node.is("Mul") ? c->first : 1 / c->first;
      from = c->second;
    } else {
      break;
    }
    if (p.alone) p.nodes.push_back(n);  // otherwise it stays for its other readers
    p.value = from;
  }
  return p;
}

void peel_repeated_heads(const Graph& g, Peeled& p) {
  NodeId merge, repeat;
  if (!made_by(g, p.value, "Reshape", &merge)) return;
  const ValueId five = g.node(merge).in(0);
  if (!made_by(g, five, "Expand", &repeat) && !made_by(g, five, "Tile", &repeat)) return;
  const ValueId unsqueezed = g.node(repeat).in(0);
  NodeId split = g.value(unsqueezed).producer;
  if (split == NodeId::none || !(g.node(split).is("Unsqueeze") || g.node(split).is("Reshape"))) return;
  const ValueId heads = g.node(split).in(0);
  auto from = extents(g, heads), middle = extents(g, unsqueezed), to = extents(g, p.value);
  if (!from || !middle || !to || from->size() != 4 || middle->size() != 5 || to->size() != 4) return;
  const Extents& f = *from;
  if (*middle != Extents{f[0], f[1], Extent::of(1), f[2], f[3]}) return;
  const int64_t times = repetition(g, repeat, *middle);
  if (times < 1 || !f[1].known() || *to != Extents{f[0], Extent::of(f[1].number * times), f[2], f[3]}) return;
  ValueId at = p.value;
  for (NodeId n : {merge, repeat, split}) {
    p.alone = p.alone && g.only_reader(at) != NodeId::none;
    if (p.alone) p.nodes.push_back(n);
    at = g.node(n).in(0);
  }
  p.value = heads;
  p.repeats = times;
}

}  // namespace smelt::fuse
