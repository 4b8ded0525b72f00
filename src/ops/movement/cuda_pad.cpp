// Pad and CenterCropPad on a GPU: places axis by axis.
#include "ops/movement/cuda_axes.h"
#include "ops/movement/offer.h"

namespace smelt::ops {

void offer_pad_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  for (const int64_t extent : b.outputs[0].shape)  // before tables are made for it
    if (extent >= int64_t{1} << 31) return offer.refuse("cuda", Reason::too_large, "an axis of {}; it counts to 2^31", extent);
  Result<PaddedAxes> p = padded_axes(b);
  if (!p) return offer.refuse("cuda", p.refusal());
  constexpr size_t value = 2;
  AxesFill fill;
  if (p->fill) fill.element = element_of(*p->fill);
  if (p->computed_fill) fill.input = value;
  offer_by_axes(std::move(p->axes), b, std::move(fill), "pad", *machine.gpu, offer);
}

}  // namespace smelt::ops
