// LpNormalization and LRN on a GPU.
#include <fmt/core.h>

#include "kernels/reduce/lines.h"
#include "ops/norm/offer.h"
#include "ops/reduce/cuda_lines.h"

namespace smelt::ops {

void offer_lp_norm_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Shape& x = b.inputs[0].shape;
  const AxisView v = around_axis(x, normalize_axis(b.node->get_int("axis", -1), static_cast<int64_t>(x.size())));
  offer_lines_cuda(b, {v, v.outer * v.inner, fmt::format("divide_by_norm<{}>", b.node->get_int("p", 2))}, machine, offer);
}

void offer_lrn_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Node& n = *b.node;
  const Shape& x = b.inputs[0].shape;
  const kernels::Response response{.size = n.get_int("size", 1),
                                   .alpha = n.get_float("alpha", 1e-4f),
                                   .beta = n.get_float("beta", 0.75f),
                                   .bias = n.get_float("bias", 1.0f)};
  offer_lines_cuda(b, {around_axis(x, 1), elements(x), "respond", "ResponseArgs", [response](Launch& l) { l.value(response); }},
                   machine, offer);
}

}  // namespace smelt::ops
