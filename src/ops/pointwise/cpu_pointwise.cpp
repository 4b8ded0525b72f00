// Pointwise operators on the processor, by the blocked evaluator.
#include <algorithm>

#include "ops/core/any_booleans.h"
#include "ops/pointwise/cpu_sweep.h"
#include "ops/pointwise/offer.h"

namespace smelt::ops {
namespace {

class PointwiseKernel final : public Kernel, public TakesAnyBooleans {
 public:
  PointwiseKernel(const expr::Program& p, const Shape& shape, const std::vector<Shape>& strides, std::vector<size_t> present,
                  int threads)
      : sweep_(p, shape, strides, threads),
        present_(std::move(present)),
        single_(p.outputs().size() == 1),
        inputs_(present_.size()) {}
  int64_t workspace() const override { return sweep_.workspace(); }
  bool in_place(size_t) const override { return single_; }
  bool takes_any_boolean(size_t i) const override {
    const auto at = std::ranges::find(present_, i);
    return at != present_.end() && sweep_.takes_any_boolean(static_cast<size_t>(at - present_.begin()));
  }
  void run(const Buffers& b) override {
    for (size_t i = 0; i < present_.size(); ++i) inputs_[i] = b.inputs[present_[i]];
    sweep_.run(inputs_, b.outputs, b.workspace);
  }

 private:
  Sweep sweep_;
  std::vector<size_t> present_;  // the node's inputs that the program reads, in order
  bool single_;
  std::vector<const void*> inputs_;
};

}  // namespace

void offer_pointwise_cpu(const PointwiseProblem& p, const Machine& machine, Offer& offer) {
  const double estimate = Sweep(p.program, p.shape, p.strides, machine.threads).estimate_us();
  offer.candidates.push_back({"cpu", "", estimate, [p, threads = machine.threads] {
                                return std::make_unique<PointwiseKernel>(p.program, p.shape, p.strides, p.present, threads);
                              }});
}

}  // namespace smelt::ops
