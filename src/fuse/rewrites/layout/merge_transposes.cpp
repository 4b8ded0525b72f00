// Before   Transpose(Transpose(x, p), q)
// After    Transpose(x, p[q]): none, when the second undoes the first
// Unless   neither order nor rank is known
#include "fuse/match/bypass.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// The order of a Transpose: without one it reverses the axes.
std::vector<int64_t> order(const Graph& g, NodeId n) {
  if (g.node(n).has("perm")) return g.node(n).get_ints("perm");
  std::vector<int64_t> perm;
  for (int axis = rank(g, g.node(n).in(0)) - 1; axis >= 0; --axis) perm.push_back(axis);
  return perm;
}

}  // namespace

Outcome merge_transposes(const Graph& g, NodeId n) {
  if (!g.node(n).is("Transpose")) return NotHere{};
  NodeId first;
  if (!made_by(g, g.node(n).in(0), "Transpose", &first)) return NotHere{};
  const auto p = order(g, first), q = order(g, n);
  if (p.empty() || p.size() != q.size()) return refuse(Reason::wrong_rank, first, "orders of {} and {} axes", p.size(), q.size());
  std::vector<int64_t> perm;
  for (int64_t axis : q) perm.push_back(p[static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(p.size())))]);
  Match m = become(n, "Transpose", {g.node(first).in(0)}, {{"perm", perm}});
  m.nodes = {first, n};
  return m;
}

}  // namespace smelt::fuse
