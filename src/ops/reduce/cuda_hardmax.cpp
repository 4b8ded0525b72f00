// Hardmax on a GPU.
#include "ops/reduce/cuda_lines.h"
#include "ops/reduce/offer.h"

namespace smelt::ops {

void offer_hardmax_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Shape& x = b.inputs[0].shape;
  const AxisView v = around_axis(x, normalize_axis(b.node->get_int("axis", -1), static_cast<int64_t>(x.size())));
  offer_lines_cuda(b, {v, v.outer * v.inner, "hard_max"}, machine, offer);
}

}  // namespace smelt::ops
