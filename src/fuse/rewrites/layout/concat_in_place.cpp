// Before   Concat(x1, …, xk)
// After    the same: the memory plan puts each input into its slice of the output, and nothing is copied
// Unless   an input is a constant, a graph input, a view of another value, or the result of control flow
//          an input is a graph output, or goes into another Concat first
//          slices lie apart and a producer writes, or another reader reads, no such rows
#include <algorithm>

#include "fuse/rewrites/layout/concat.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome concat_in_place(const Graph& g, NodeId n) {
  if (!g.node(n).is("Concat")) return NotHere{};
  if (auto no = not_in_place(g, n)) return *no;
  std::vector<NodeId> nodes;
  for (size_t i = 0; i < g.node(n).inputs.size(); ++i) nodes.push_back(g.producer(n, i));
  const bool upsampled = std::ranges::any_of(nodes, [&](NodeId p) { return g.node(p).is("Resize"); });
  nodes.push_back(n);
  return Match{in_order(g, nodes), nullptr, upsampled ? "behind an upsampling" : ""};
}

}  // namespace smelt::fuse
