#include "ops/matmul/flops.h"

namespace smelt::ops {

int64_t matmul_flops(const BoundNode& b) {
  const Shape& a = input_of(b, 0).shape;
  if (a.empty()) return program_flops(b);
  const int64_t k = b.node->get_int("transA", 0) != 0 && a.size() > 1 ? a[a.size() - 2] : a.back();
  return 2 * present_elements(b.outputs[0]) * k + program_flops(b);
}

}  // namespace smelt::ops
