#include "plan/segment.h"

namespace smelt::plan {
TensorIndex add_tensor(Segment& s, BoundValue v) {
  s.tensors.push_back(std::move(v));
  return static_cast<TensorIndex>(s.tensors.size()) - 1;
}

Step reorder_step(const Segment& s, TensorIndex from, TensorIndex to) {
  Node node;
  node.domain = smelt_domain;
  node.op = "Reorder";
  node.inputs = {s.tensor(from).value};
  node.outputs = {s.tensor(to).value};
  Step step;
  step.node = std::make_shared<const Node>(std::move(node));
  step.inputs = {from};
  step.outputs = {to};
  return step;
}

ops::BoundNode bound_node(const Segment& s, const Step& step, ops::WeightStore* weights) {
  ops::BoundNode b;
  b.node = step.node.get();
  b.weights = weights;
  const auto pick = [&](const std::vector<TensorIndex>& from, std::vector<ops::BoundTensor>& to) {
    for (TensorIndex t : from) to.push_back(t == absent ? ops::BoundTensor{} : static_cast<const ops::BoundTensor&>(s.tensor(t)));
  };
  pick(step.inputs, b.inputs);
  pick(step.outputs, b.outputs);
  if (!step.at_most.empty()) b.outputs.push_back(ops::bound_at_most({}).back());
  return b;
}

}  // namespace smelt::plan
