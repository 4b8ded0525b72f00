#include "ops/matmul/flops.h"

namespace smelt::ops {

int64_t matmul_flops(const BoundNode& b) {
  const Shape& a = input_of(b, 0).shape;
  if (a.empty()) return program_flops(b);
  const int64_t k = b.node->get_int("transA", 0) != 0 && a.size() > 1 ? a[a.size() - 2] : a.back();
  return 2 * present_elements(b.outputs[0]) * k + program_flops(b);
}

int64_t joined_matmul_flops(const BoundNode& b) {
  int64_t sum = 0;
  BoundNode one = b;
  for (const BoundTensor& y : b.outputs) {
    one.outputs = {y};
    sum += matmul_flops(one);
  }
  return sum;
}

}  // namespace smelt::ops
