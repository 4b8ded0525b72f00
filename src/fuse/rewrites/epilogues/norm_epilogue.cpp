// modulated_norm
// Before   Norm(x) * scale + shift, or * (1 + scale), with computed scale and shift
// After    Norm with the program in0 * scale + shift and the two as operands
// norm_epilogue
// Before   pointwise nodes after a Norm, QuantizeLinear among them
// After    Norm with their program
// Unless   the Norm's result has another reader or is a graph output
//          a node is not pointwise, or another operand enlarges the result or may do so
#include "fuse/rewrites/epilogues/epilogue.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

Outcome take(const Graph& g, NodeId id, const Epilogue& epilogue) {
  Node fused = g.node(id);
  fused.sources.clear();
  return with_epilogue(g, {id}, fused, 4, epilogue);
}

/// The first of these nodes that is the operator with a computed operand beside what it reads.
bool scales(const Graph& g, NodeId n, std::string_view op) {
  const Node& node = g.node(n);
  return node.is(op) && !g.value(node.in(0)).is_constant() && !g.value(node.in(1)).is_constant();
}

}  // namespace

Outcome modulated_norm(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (!n.is("Norm", smelt_domain) || n.program) return NotHere{};
  NodeId mul = g.only_reader(n.out());
  if (mul == NodeId::none || !scales(g, mul, "Mul")) return NotHere{};
  NodeId add = g.only_reader(g.node(mul).out());
  if (add == NodeId::none || !scales(g, add, "Add")) return NotHere{};
  Epilogue e = absorb(g, base_of(g, id));
  const bool both = std::find(e.nodes.begin(), e.nodes.end(), add) != e.nodes.end();
  if (!both) return e.refusal();
  return take(g, id, e);
}

Outcome norm_epilogue(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (!n.is("Norm", smelt_domain) || !is_real(g.value(n.out()).type)) return NotHere{};
  EpilogueLimits limits;
  limits.bytes = true;
  Epilogue e = absorb(g, base_of(g, id), limits);
  if (!e.nodes.empty()) return take(g, id, e);
  if (n.program || e.refusal().reason == Reason::wrong_reader) return NotHere{};
  return e.refusal();
}

}  // namespace smelt::fuse
