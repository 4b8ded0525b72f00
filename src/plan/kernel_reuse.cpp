#include "plan/kernel_reuse.h"

#include <algorithm>
#include <cstring>

namespace smelt::plan {
namespace {

/// Constants that are made while a segment is planned are new each time.
bool same_constant(const Tensor& a, const Tensor& b) {
  if (a.valid() != b.valid() || a.raw() == b.raw()) return a.valid() == b.valid();
  if (a.type() == DType::string || a.nbytes() != b.nbytes()) return false;
  return std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

bool same_form(const BoundValue& a, const BoundValue& b) {
  return a.value == b.value && a.type == b.type && a.shape == b.shape && a.layout == b.layout && a.strides == b.strides &&
         a.alignment == b.alignment && same_constant(a.constant, b.constant);
}

}  // namespace

ReusableKernels::ReusableKernels(const Segment* before) : before_(before) {
  if (!before) return;
  for (const Step& step : before->steps)
    if (step.kernel && step.at_most.empty()) steps_[step.id].push_back(&step);
}

const Step* ReusableKernels::find(const Segment& s, const Step& step) const {
  const auto at = steps_.find(step.id);
  if (at == steps_.end() || step.kind != StepKind::kernel) return nullptr;
  const auto same = [&](TensorIndex a, TensorIndex b) {
    return a == absent || b == absent ? a == b : same_form(s.tensor(a), before_->tensor(b));
  };
  const auto known = std::ranges::find_if(at->second, [&](const Step* k) {
    return k->kind == StepKind::kernel && k->node->op == step.node->op && k->part == step.part &&
           std::ranges::equal(step.inputs, k->inputs, same) && std::ranges::equal(step.outputs, k->outputs, same);
  });
  return known == at->second.end() ? nullptr : *known;
}

}  // namespace smelt::plan
