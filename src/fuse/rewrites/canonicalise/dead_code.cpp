// Before   a node whose outputs nobody reads
// After    nothing
// Unless   an output has a reader or is a graph output
#include <algorithm>

#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome dead_code(const Graph& g, NodeId n) {
  const std::vector<ValueId>& outputs = g.node(n).outputs;
  const bool used = std::any_of(outputs.begin(), outputs.end(),
                                [&](ValueId v) { return v != ValueId::none && (!g.readers(v).empty() || g.is_output(v)); });
  if (used) return NotHere{};
  return Match{{n}, [n](Graph& graph) {
                 graph.remove_node(n);
                 return NodeId::none;
               }};
}

}  // namespace smelt::fuse
