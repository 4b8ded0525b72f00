// Movement along strides on a GPU: Transpose, Slice, Expand and Split.
#include "ops/core/strides.h"
#include "ops/movement/cuda_strided_copy.h"
#include "ops/movement/offer.h"

namespace smelt::ops {

void offer_windows_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects_windows(b)) return offer.refuse("cuda", *why);
  if (!is_dense(b.inputs[0])) return offer.refuse("cuda", Reason::wrong_layout, "an input that is a slice of another tensor");
  std::vector<StridedMove> moves;
  const std::vector<StridedWindow> windows = windows_of(b);
  for (size_t i = 0; i < windows.size(); ++i)
    moves.push_back({b.outputs[i].shape, windows[i].strides, memory_strides(b.outputs[i]), windows[i].offset, i});
  offer_moves_cuda(b, std::move(moves), *machine.gpu, offer);
}

}  // namespace smelt::ops
