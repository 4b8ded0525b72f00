// Reorder on a GPU.
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/movement/cuda_strided_copy.h"
#include "ops/reorder/offer.h"

namespace smelt::ops {

void offer_reorder_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor& from = b.inputs[0];
  const BoundTensor& to = b.outputs[0];
  offer.problem = Key("reorder").field(from).to(to).begins(";x", from).begins(";y", to).text();
  offer_moves_cuda(b, {{from.shape, memory_strides(from), memory_strides(to)}}, *machine.gpu, offer);
}

}  // namespace smelt::ops
