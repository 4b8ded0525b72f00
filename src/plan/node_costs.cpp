#include "plan/node_costs.h"

#include "ops/core/cost.h"
#include "plan/shapes.h"

namespace smelt::plan {

std::vector<NodeCost> node_costs(const Graph& g, std::span<const Shape> inputs) {
  const std::vector<NodeId> order = g.topological();
  Environment env(g, order);
  for (size_t i = 0; i < inputs.size(); ++i) env.set(g.inputs()[i], g.value(g.inputs()[i]).type, inputs[i]);
  const Segment s = plan_segment(g, order, env, false);
  std::vector<NodeCost> costs;
  for (const Step& step : s.steps) {
    const Node& n = *step.node;
    NodeCost c{n.name, n.domain.empty() ? n.op : n.domain + "." + n.op};
    if (step.kind != StepKind::view) {
      const ops::Cost cost = ops::cost(bound_node(s, step, nullptr));
      c.bytes = cost.bytes, c.flops = cost.flops;
    }
    costs.push_back(std::move(c));
  }
  return costs;
}

}  // namespace smelt::plan
