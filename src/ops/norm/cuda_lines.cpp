// LpNormalization and LRN on a GPU.
#include "ops/reduce/cuda_lines.h"
#include "ops/norm/offer.h"

#include <fmt/core.h>

namespace smelt::ops {

void offer_lp_norm_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Shape& x = b.inputs[0].shape;
  const AxisView v = around_axis(x, normalize_axis(b.node->get_int("axis", -1), static_cast<int64_t>(x.size())));
  offer_lines_cuda(b, {v, v.outer * v.inner, fmt::format("divide_by_norm<{}>(x, y, l)", b.node->get_int("p", 2)), ""}, machine,
                   offer);
}

void offer_lrn_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Node& n = *b.node;
  const Shape& x = b.inputs[0].shape;
  LineKernel k{around_axis(x, 1), elements(x), "respond(x, y, l, size, alpha, beta, bias)",
               ", i64 size, float alpha, float beta, float bias"};
  k.arguments = [size = n.get_int("size", 1), alpha = n.get_float("alpha", 1e-4f), beta = n.get_float("beta", 0.75f),
                 bias = n.get_float("bias", 1.0f)](Launch& l) { l.value(size).value(alpha).value(beta).value(bias); };
  offer_lines_cuda(b, std::move(k), machine, offer);
}

}  // namespace smelt::ops
