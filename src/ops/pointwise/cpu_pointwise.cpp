// Pointwise operators on the processor, by the blocked evaluator.
#include <algorithm>

#include "ops/core/any_booleans.h"
#include "ops/pointwise/cpu_sweep.h"
#include "ops/pointwise/offer.h"

namespace smelt::ops {
namespace {

class PointwiseKernel final : public Kernel, public TakesAnyBooleans {
 public:
  PointwiseKernel(const PointwiseProblem& p, std::vector<InputTables> tables, int threads)
      : sweep_(p.program, p.shape, p.strides, threads, std::move(tables)),
        present_(p.present),
        single_(p.program.outputs().size() == 1),
        inputs_(present_.size()) {}
  int64_t workspace() const override { return sweep_.workspace(); }
  bool in_place(size_t) const override { return single_; }
  bool reads(size_t i) const override { return std::ranges::find(present_, i) != present_.end(); }
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
  const auto tables = ChannelTables::match(p);
  const PointwiseProblem& rest = tables ? tables->rest() : p;
  std::vector<Shape> strides = rest.strides;
  if (tables) strides.resize(rest.present.size() + p.program.outputs().size());
  const double estimate = Sweep(rest.program, rest.shape, strides, machine.threads).estimate_us();
  offer.candidates.push_back({"cpu", "", estimate, [p, tables, threads = machine.threads] {
                                return tables ? std::make_unique<PointwiseKernel>(tables->rest(), tables->make(), threads)
                                              : std::make_unique<PointwiseKernel>(p, std::vector<InputTables>{}, threads);
                              }});
}

}  // namespace smelt::ops
