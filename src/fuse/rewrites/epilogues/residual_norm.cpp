// Before   Norm(a + b)
// After    Norm(a, residual b); where the sum is read elsewhere too it becomes the Norm's output 1
// Unless   a or b broadcasts in the sum
//          the sum has other readers and a matrix product or a convolution can add it as it stores its result, which moves
//          one tensor less
//          the Norm has a residual
#include "fuse/match/extents.h"
#include "fuse/match/match.h"
#include "fuse/match/product_behind.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
Outcome residual_norm(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (!n.is("Norm", smelt_domain) || n.in(1) != ValueId::none) return NotHere{};
  NodeId add;
  const ValueId sum = n.in(0);
  if (!made_by(g, sum, "Add", &add)) return NotHere{};
  const ValueId a = g.node(add).in(0), b = g.node(add).in(1);
  for (ValueId v : {a, b})
    if (!same_shape(g, v, sum))
      return refuse(Reason::wrong_shape, add, "{} is not proven to have the shape of the sum {}", g.value(v).name,
                    g.value(sum).name);
  bool shared = g.is_output(sum);
  for (const Use& u : g.readers(sum))
    if (u.node != id) shared = true;
  for (size_t i = 2; i < n.inputs.size(); ++i)
    if (n.in(i) == sum || (n.in(i) != ValueId::none && depends_on(g, n.in(i), add)))
      return refuse(Reason::extra_reader, id, "{} also depends on the sum", g.value(n.in(i)).name);
  if (shared)
    for (ValueId v : {a, b})
      if (NodeId product = product_behind(g, v); product != NodeId::none)
        return refuse(Reason::not_profitable, product, "{} is also read elsewhere, and {} can add the residual as it stores",
                      g.value(sum).name, describe(g, product));
  Node fused = n;
  fused.inputs.resize(std::max<size_t>(fused.inputs.size(), 2), ValueId::none);
  fused.inputs[0] = a;
  fused.inputs[1] = b;
  if (shared) fused.outputs = {n.out(), sum};
  fused.order = 0;
  fused.sources.clear();
  const std::vector<NodeId> nodes{add, id};
  return replacement(nodes, fused, n.get_string("kind", ""));
}

}  // namespace smelt::fuse
