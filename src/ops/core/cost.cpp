#include "ops/core/cost.h"

#include <algorithm>

#include "ops/core/facts.h"
#include "ops/core/flops.h"

namespace smelt::ops {
namespace {

int64_t flops(const BoundNode& b) {
  if (b.outputs.empty()) return 0;
  const Facts& f = facts(*b.node);
  if (f.flops.count) return f.flops.count(b);
  const int64_t of_output = f.flops.of_output >= 0 ? f.flops.of_output : f.elements == Elements::pointwise ? 1 : 0;
  const int64_t own =
      f.flops.of_input > 0 ? f.flops.of_input * present_elements(input_of(b, 0)) : of_output * present_elements(b.outputs[0]);
  return own + program_flops(b);
}

int64_t moved(const BoundNode& b) {
  int64_t total = 0;
  for (size_t i = 0; i < b.inputs.size(); ++i) {
    const BoundTensor& t = b.inputs[i];
    if (t.type == DType::undefined || t.type == DType::string) continue;
    // One tensor read through two inputs moves once.
    const bool again =
        t.constant.valid() &&
        std::ranges::any_of(b.inputs.begin(), b.inputs.begin() + static_cast<int64_t>(i),
                            [&](const BoundTensor& u) { return u.constant.valid() && u.constant.raw() == t.constant.raw(); });
    if (again) continue;
    const int64_t all = bytes(t.type, elements(t.shape));
    const bool part = i == 0 && facts(*b.node).reads_part && !b.outputs.empty();
    total += part ? std::min(all, bytes(t.type, present_elements(b.outputs[0]))) : all;
  }
  for (const BoundTensor& t : b.outputs) {
    if (t.type != DType::undefined && t.type != DType::string) total += bytes(t.type, elements(t.shape));
  }
  return total;
}

}  // namespace

int64_t present_elements(const BoundTensor& t) { return t.type == DType::undefined ? 0 : elements(t.shape); }

const BoundTensor& input_of(const BoundNode& b, size_t i) {
  static const BoundTensor absent;
  return i < b.inputs.size() ? b.inputs[i] : absent;
}

int64_t program_flops(const BoundNode& b) {
  return b.node->program ? present_elements(b.outputs[0]) * b.node->program->operations() : 0;
}

int64_t pool_flops(const BoundNode& b) { return present_elements(b.outputs[0]) * elements(b.node->get_ints("kernel_shape")); }

Cost cost(const BoundNode& node) { return {moved(node), flops(node)}; }

}  // namespace smelt::ops
