#include "plan/concat_kernels.h"

#include <limits>

#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "plan/views.h"

namespace smelt::plan {
namespace {

Step copied_part(Segment& s, const Step& concat, const ConcatCopy::Part& part) {
  const TensorIndex x = concat.inputs[part.input];
  const BoundValue& y = s.tensor(concat.outputs[0]);
  BoundValue slice = s.tensor(x);
  slice.value = ValueId::none;
  slice.constant = Tensor();
  slice.layout = y.layout;
  slice.strides = ops::memory_strides(y);
  slice.buffer = y.buffer;
  slice.offset = y.offset + part.offset;
  const TensorIndex to = add_tensor(s, std::move(slice));
  Step step = reorder_step(s, x, to);
  Node node = *step.node;
  node.name = concat.node->name;
  node.sources = concat.node->sources;
  step.node = std::make_shared<const Node>(std::move(node));
  step.id = concat.id;
  step.part = static_cast<int>(part.input);
  return step;
}

}  // namespace

bool copies_by_kernels(const Segment& s, const Step& concat, const tune::Tuner& tuner) {
  if (!tuner.machine().gpu || !tuner.allows("cuda")) return false;
  const BoundValue& y = s.tensor(concat.outputs[0]);
  const auto shape = concat_shape(s, concat);
  const bool counted = elements(y.shape) <= std::numeric_limits<int32_t>::max();  // as far as such kernels count
  return shape && shape->outer > 1 && counted && ops::StridedCopy::can_move(ops::element_bytes(y.type));
}

void copy_parts_by_kernels(Segment& s, const tune::Tuner& tuner) {
  std::vector<Step> steps;
  for (Step& step : s.steps) {
    if (step.kind == StepKind::concat && copies_by_kernels(s, step, tuner))
      for (const ConcatCopy::Part& part : step.concat->parts) steps.push_back(copied_part(s, step, part));
    else
      steps.push_back(std::move(step));
  }
  s.steps = std::move(steps);
}

}  // namespace smelt::plan
