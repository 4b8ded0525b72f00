// Before   x * Sigmoid(x), either way round
// After    ai.smelt.Pointwise silu(x)
// Unless   the factor is not the argument, as in a gate over another value
//          the sigmoid has another reader or is a graph output
#include "fuse/rewrites/recognise/activation.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome recognise_silu(const Graph& g, NodeId sigmoid) {
  if (!g.node(sigmoid).is("Sigmoid")) return NotHere{};
  return match_activation(g, sigmoid, g.node(sigmoid).in(0), {expr::Fn::silu, "silu", {{{1, 1}, 1.0}}, {}});
}

}  // namespace smelt::fuse
