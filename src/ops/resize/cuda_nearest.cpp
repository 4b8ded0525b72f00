// Nearest Resize and Upsample on a GPU: places axis by axis.
#include "base/value_of.h"
#include "ops/movement/cuda_axes.h"
#include "ops/resize/offer.h"

namespace smelt::ops {

void offer_nearest_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  Result<PaddedAxes> p = nearest_axes(b);
  if (!p) return offer.refuse("cuda", p.refusal());
  offer_by_axes(std::move(p->axes), b, {element_of(value_of(p->fill, "what lies outside"))}, "resize", *machine.gpu, offer);
}

}  // namespace smelt::ops
