// DepthToSpace and SpaceToDepth on the processor: a strided copy over six axes, in any layout of the images.
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "ops/movement/offer.h"

namespace smelt::ops {
namespace {

class BlockKernel final : public Kernel {
 public:
  BlockKernel(const BlockMove& m, int64_t element_bytes, int threads) : copy_(m.extents, m.from, m.to, element_bytes, threads) {}
  void run(const Buffers& b) override { copy_.run(b.outputs[0], b.inputs[0]); }

 private:
  StridedCopy copy_;
};

}  // namespace

void offer_blocks_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  const int64_t size = element_bytes(x.type);
  if (!StridedCopy::can_move(size)) return offer.refuse("cpu", Reason::wrong_type, "elements of {}", smelt::name(x.type));
  if (elements(y.shape) == 0) return offer.refuse("cpu", Reason::wrong_shape, "nothing to move");
  const BlockMove m = block_move(*b.node, x.shape, memory_strides(x), y.shape, memory_strides(y));
  offer.candidates.push_back({"cpu", "", copy_estimate_us(b, machine),
                              [m, size, threads = machine.threads] { return std::make_unique<BlockKernel>(m, size, threads); }});
}

}  // namespace smelt::ops
