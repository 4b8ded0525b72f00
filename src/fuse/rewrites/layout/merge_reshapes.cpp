// Before   Reshape, Flatten, Squeeze or Unsqueeze of what one of them gives
// After    one Reshape
// Unless   more than one extent of the result is not known
#include <algorithm>

#include "fuse/match/bypass.h"
#include "fuse/rewrites/rewrites.h"
#include "ops/core/facts.h"

namespace smelt::fuse {
namespace {

bool reshapes(const Graph& g, NodeId n) {
  return n != NodeId::none && ops::facts(g.node(n)).elements == ops::Elements::in_order && !g.node(n).is("Identity");
}

}  // namespace

Outcome merge_reshapes(const Graph& g, NodeId n) {
  if (!reshapes(g, n)) return NotHere{};
  const NodeId first = g.producer(n, 0);
  if (!reshapes(g, first)) return NotHere{};
  const auto& shape = g.value(g.node(n).out()).shape;
  if (!shape) return refuse(Reason::unknown_shape, n, "the rank of {} is not known", g.value(g.node(n).out()).name);
  std::vector<int64_t> to;
  for (const Dim& d : *shape) to.push_back(d.known() ? d.value : -1);
  if (std::count(to.begin(), to.end(), -1) > 1)
    return refuse(Reason::unknown_shape, n, "{} has {} unknown extents, a Reshape can work out one", to_string(*shape),
                  std::count(to.begin(), to.end(), -1));
  if (std::find(to.begin(), to.end(), 0) != to.end()) return refuse(Reason::wrong_shape, n, "{} is empty", to_string(*shape));
  Match m = become_reshape(n, g.node(first).in(0), to);
  m.nodes = {first, n};
  return m;
}

}  // namespace smelt::fuse
