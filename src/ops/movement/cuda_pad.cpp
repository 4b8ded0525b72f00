// Pad and CenterCropPad on a GPU: places axis by axis.
#include "ops/movement/cuda_axes.h"
#include "ops/movement/offer.h"

namespace smelt::ops {

void offer_pad_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  Result<PaddedAxes> p = padded_axes(b);
  if (!p) return offer.refuse("cuda", p.refusal());
  if (p->computed_fill) return offer.refuse("cuda", Reason::not_constant, "its value is computed");
  const auto& value = p->fill;
  const std::vector<std::byte> fill = value ? element_of(*value) : std::vector<std::byte>{};
  offer_by_axes(std::move(p->axes), b, fill, "pad", *machine.gpu, offer);
}

}  // namespace smelt::ops
