// Pointwise operators: ai.smelt.Pointwise and ONNX's own, by the blocked evaluator.
#include "base/error.h"
#include "ops/loops.h"
#include "ops/pointwise/onnx.h"
#include "ops/pointwise/sweep.h"
#include "ops/strides.h"
#include "ops/tactics.h"

namespace smelt::ops {
namespace {

class PointwiseKernel final : public Kernel {
 public:
  PointwiseKernel(const expr::Program& p, const Shape& shape, std::vector<Shape> strides, std::vector<size_t> present,
                  int threads)
      : sweep_(p, shape, std::move(strides), threads),
        present_(std::move(present)),
        single_(p.outputs().size() == 1),
        inputs_(present_.size()) {}
  int64_t workspace() const override { return sweep_.workspace(); }
  bool in_place(size_t) const override { return single_; }
  void run(const Buffers& b) override {
    for (size_t i = 0; i < present_.size(); ++i) inputs_[i] = b.inputs[present_[i]];
    sweep_.run(inputs_, b.outputs, b.workspace);
  }

 private:
  Sweep sweep_;
  std::vector<size_t> present_;             // the node's inputs that the program reads, in order
  bool single_;
  std::vector<const void*> inputs_;
};

bool is_blocked(const BoundTensor& t) { return t.layout == Layout::nchw8c || t.layout == Layout::nchw16c; }

}  // namespace

bool pointwise_handles(const Node& n) { return is_pointwise(n); }

void pointwise_offer(const BoundNode& b, const Machine& machine, Offer& offer) {
  const auto program = program_of(b);
  if (!program) return offer.rejected.push_back({"cpu", "the expression language has no program for its types"});
  const Shape& shape = b.outputs[0].shape;
  std::vector<Shape> strides;
  std::vector<size_t> present;
  for (size_t i = 0; i < b.inputs.size(); ++i) {
    if (b.inputs[i].type == DType::undefined) continue;
    if (is_blocked(b.inputs[i])) return offer.rejected.push_back({"cpu", "an operand lies in blocks of channels"});
    present.push_back(i);
    strides.push_back(broadcast_strides(b.inputs[i], shape.size()));
  }
  std::vector<Shape> outputs;
  for (const BoundTensor& t : b.outputs) {
    if (t.type == DType::undefined) return offer.rejected.push_back({"cpu", "an output is left out"});
    if (is_blocked(t)) return offer.rejected.push_back({"cpu", "an output lies in blocks of channels"});
    outputs.push_back(memory_strides(t));
  }
  if (auto reason = Sweep::rejects(*program, shape, outputs)) return offer.rejected.push_back({"cpu", *reason});
  strides.insert(strides.end(), outputs.begin(), outputs.end());
  const double estimate = Sweep(*program, shape, strides, machine.threads).estimate_us();
  offer.candidates.push_back({"cpu", "", estimate, [=, threads = machine.threads] {
    return std::make_unique<PointwiseKernel>(*program, shape, strides, present, threads);
  }});
}

}  // namespace smelt::ops
