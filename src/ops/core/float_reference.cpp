#include "ops/core/float_reference.h"

#include <algorithm>
#include <cstring>

namespace smelt::ops {

Widened::Widened(ComputeContext& c, DType type)
    : original_(c),
      inputs_(c.inputs.begin(), c.inputs.end()),
      outputs_(c.outputs.begin(), c.outputs.end()),
      context_{c.node, inputs_, outputs_, c.run_graph} {
  for (Tensor& x : inputs_) {
    if (x.valid() && is_float(x.type()) && x.type() != type) x = x.cast(type);
  }
  for (Tensor& y : outputs_) {
    if (y.valid() && is_float(y.type()) && y.type() != type) y = Tensor::empty(type, y.shape());
  }
}

void Widened::store() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Tensor& to = original_.outputs[i];
    if (!to.valid() || to.type() == outputs_[i].type()) continue;
    const Tensor rounded = outputs_[i].cast(to.type());
    std::memcpy(to.raw(), rounded.raw(), static_cast<size_t>(to.nbytes()));
  }
}

DType reference_float_type(const ComputeContext& c) {
  const auto wide = [](const Tensor& t) { return t.valid() && t.type() == DType::f64; };
  return std::ranges::any_of(c.inputs, wide) || std::ranges::any_of(c.outputs, wide) ? DType::f64 : DType::f32;
}

}  // namespace smelt::ops
