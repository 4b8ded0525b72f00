#include "ops/conv/flops.h"

namespace smelt::ops {

int64_t conv_flops(const BoundNode& b, size_t at) {
  const Shape& w = input_of(b, at).shape;
  if (w.empty() || w[0] == 0) return program_flops(b);
  return 2 * present_elements(b.outputs[0]) * elements(Shape(w.begin() + 1, w.end())) + program_flops(b);
}

int64_t fused_conv_flops(const BoundNode& b) { return conv_flops(b, static_cast<size_t>(b.node->get_int("segments", 1))); }

/// Each input element is multiplied with the weight's elements of one input channel, [C, M / group, kernel…].
int64_t conv_transpose_flops(const BoundNode& b) {
  const Shape& w = input_of(b, 1).shape;
  if (w.empty()) return program_flops(b);
  return 2 * present_elements(input_of(b, 0)) * elements(Shape(w.begin() + 1, w.end())) + program_flops(b);
}

}  // namespace smelt::ops
