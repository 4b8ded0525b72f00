#include "run/bound.h"

namespace smelt::run {
namespace {

/// Channels per block; 1 for layouts that do not block them.
int64_t channel_block(ops::Layout layout) {
  switch (layout) {
    case ops::Layout::nchw8c: return 8;
    case ops::Layout::nchw16c: return 16;
    default: return 1;
  }
}

}  // namespace

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
  return b;
}

int64_t span_bytes(const ops::BoundTensor& t) {
  const int64_t count = elements(t.shape);
  if (count == 0) return 0;
  if (!t.strides.empty()) {
    int64_t last = 0;
    for (size_t i = 0; i < t.shape.size(); ++i) last += (t.shape[i] - 1) * t.strides[i];
    return bytes(t.type, last + 1);
  }
  const int64_t block = channel_block(t.layout);
  if (block == 1) return bytes(t.type, count);
  const int64_t channels = t.shape[1];
  return bytes(t.type, count / channels * ((channels + block - 1) / block * block));
}

}  // namespace smelt::run
