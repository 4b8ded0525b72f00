// DepthToSpace, SpaceToDepth and Tile on the processor: a strided copy over more axes than the tensors have, in any layout.
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

/// Every axis becomes two: which repeat, and where in it.
BlockMove tile_move(const BoundTensor& x, const BoundTensor& y) {
  const Shape from = memory_strides(x), to = memory_strides(y);
  BlockMove m;
  for (size_t a = 0; a < x.shape.size(); ++a) {
    const int64_t n = x.shape[a];
    m.extents.insert(m.extents.end(), {y.shape[a] / n, n});
    m.from.insert(m.from.end(), {0, from[a]});
    m.to.insert(m.to.end(), {to[a] * n, to[a]});
  }
  return m;
}

}  // namespace

void offer_blocks_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  const int64_t size = element_bytes(x.type);
  if (!StridedCopy::can_move(size)) return offer.refuse("cpu", Reason::wrong_type, "elements of {}", smelt::name(x.type));
  if (elements(y.shape) == 0) return offer.refuse("cpu", Reason::wrong_shape, "nothing to move");
  const BlockMove m =
      b.node->op == "Tile" ? tile_move(x, y) : block_move(*b.node, x.shape, memory_strides(x), y.shape, memory_strides(y));
  if (!StridedCopy::can_walk(m.extents, m.from, m.to))
    return offer.refuse("cpu", Reason::wrong_rank, "{} axes with repeats", x.shape.size());
  offer.candidates.push_back({"cpu", "", copy_estimate_us(b, machine),
                              [m, size, threads = machine.threads] { return std::make_unique<BlockKernel>(m, size, threads); }});
}

}  // namespace smelt::ops
