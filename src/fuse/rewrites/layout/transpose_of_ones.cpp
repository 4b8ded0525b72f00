// Before   Transpose(x) that moves axes of extent 1 only: the elements stay in their order
// After    Reshape(x), which moves no data
// Unless   an extent that moves is not known to be 1
//          more than one extent of the result is not known
#include <algorithm>

#include "fuse/match/bypass.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome transpose_of_ones(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (!node.is("Transpose") || !node.has("perm")) return NotHere{};
  const std::optional<SymShape>& known = g.value(node.in(0)).shape;
  if (!known) return NotHere{};
  const SymShape& shape = *known;
  const auto perm = node.get_ints("perm");
  if (perm.size() != shape.size())
    return refuse(Reason::wrong_attribute, n, "perm of {} axes for rank {}", perm.size(), shape.size());
  std::vector<int64_t> to;
  int64_t last = -1, unknown = 0;
  bool moves = false;
  for (size_t i = 0; i < perm.size(); ++i) {
    const Dim& d = shape[static_cast<size_t>(normalize_axis(perm[i], static_cast<int64_t>(shape.size())))];
    moves |= perm[i] != static_cast<int64_t>(i);
    to.push_back(d.known() ? d.value : -1);
    unknown += !d.known();
    if (d == Dim(1)) continue;
    if (perm[i] < last) return NotHere{};
    last = perm[i];
  }
  if (!moves) return NotHere{};
  if (unknown > 1)
    return refuse(Reason::unknown_shape, n, "{} has {} unknown extents, a Reshape can work out one", to_string(shape), unknown);
  const bool empty = std::find(to.begin(), to.end(), 0) != to.end();
  if (empty) return NotHere{};
  return become_reshape(n, node.in(0), to);
}

}  // namespace smelt::fuse
