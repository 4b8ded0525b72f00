// Reorder on the processor.
#include <fmt/core.h>

#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "ops/reorder/offer.h"
#include "ops/reorder/reorder.h"

namespace smelt::ops {
namespace {

class ReorderKernel final : public Kernel {
 public:
  ReorderKernel(const BoundTensor& from, const BoundTensor& to, int threads)
      : copy_(from.shape, memory_strides(from), memory_strides(to), element_bytes(from.type), threads) {}
  void run(const Buffers& b) override { copy_.run(b.outputs[0], b.inputs[0]); }

 private:
  StridedCopy copy_;
};

}  // namespace

double reorder_estimate_us(const BoundTensor& t, const Machine& machine) {
  constexpr double bytes_per_us = 4e3;
  return 1 + 2.0 * static_cast<double>(element_bytes(t.type) * elements(t.shape)) / bytes_per_us / machine.threads;
}

void offer_reorder_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor& from = b.inputs[0];
  const BoundTensor& to = b.outputs[0];
  offer.problem = Key("reorder").field(from).to(to).text();
  if (!StridedCopy::can_move(element_bytes(from.type))) {
    offer.refuse("cpu", Reason::wrong_type, "elements of {}", smelt::name(from.type));
    return;
  }
  offer.candidates.push_back({"cpu", "", reorder_estimate_us(from, machine), [from, to, threads = machine.threads] {
                                return std::make_unique<ReorderKernel>(from, to, threads);
                              }});
}

}  // namespace smelt::ops
