// Before   If(condition, captured…) with a constant condition
// After    the nodes of the branch that it takes, on the captured values
// Unless   the condition is computed
//          the branch does not fit the If: running it says so
#include "fuse/rewrites/rewrites.h"
#include "graph/inline.h"

namespace smelt::fuse {

Outcome inline_if(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (!node.is("If")) return NotHere{};
  const Tensor& condition = g.constant(n, 0);
  if (!condition.valid())
    return refuse(Reason::not_constant, g.producer(n, 0), "the condition of {} is computed", describe(g, n));
  if (condition.size() != 1)
    return refuse(Reason::wrong_shape, n, "the condition of {} has {} elements", describe(g, n), condition.size());
  const bool taken = condition.to_ints()[0] != 0;
  if (const auto no = cannot_inline(g, n, taken)) return refuse(Reason::unsupported, n, "{}", *no);
  return Match{{n}, [n, taken](Graph& graph) {
                 inline_branch(graph, n, taken);
                 return NodeId::none;
               }};
}

}  // namespace smelt::fuse
