// Pointwise operators: ai.smelt.Pointwise and ONNX's own, by the blocked evaluator.
#include "base/error.h"
#include "ops/core/family.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/pointwise/cpu_sweep.h"
#include "ops/pointwise/onnx_program.h"
#include "ops/pointwise/problem.h"

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
  std::vector<size_t> present_;  // the node's inputs that the program reads, in order
  bool single_;
  std::vector<const void*> inputs_;
};

bool is_blocked(const BoundTensor& t) { return t.layout == Layout::nchw8c || t.layout == Layout::nchw16c; }

/// What the node computes and how its operands lie; nothing, with the reason, where it cannot be said so.
std::optional<PointwiseProblem> problem_of(const BoundNode& b, std::string& reason) {
  const auto program = program_of(b);
  if (!program) return reason = "the expression language has no program for its types", std::nullopt;
  PointwiseProblem p{*program, b.outputs[0].shape};
  const auto add = [&](const BoundTensor& t, Shape strides) {
    p.strides.push_back(std::move(strides));
    p.alignments.push_back(t.alignment);
  };
  for (size_t i = 0; i < pointwise_inputs(b).size(); ++i) {
    if (b.inputs[i].type == DType::undefined) continue;
    if (is_blocked(b.inputs[i])) return reason = "an operand lies in blocks of channels", std::nullopt;
    p.present.push_back(i);
    add(b.inputs[i], broadcast_strides(b.inputs[i], p.shape.size()));
  }
  for (const BoundTensor& t : b.outputs) {
    if (t.type == DType::undefined) return reason = "an output is left out", std::nullopt;
    if (is_blocked(t)) return reason = "an output lies in blocks of channels", std::nullopt;
    add(t, memory_strides(t));
  }
  if (auto why = Sweep::rejects(p.program, p.shape, std::span(p.strides).subspan(p.present.size())))
    return reason = *why, std::nullopt;
  return p;
}

}  // namespace

bool pointwise_handles(const Node& n) { return is_pointwise(n); }

void pointwise_offer(const BoundNode& b, const Machine& machine, Offer& offer) {
  std::string reason;
  const auto p = problem_of(b, reason);
  if (!p) return offer.rejected.push_back({"cpu", reason});
  const double estimate = Sweep(p->program, p->shape, p->strides, machine.threads).estimate_us();
  offer.candidates.push_back({"cpu", "", estimate, [p = *p, threads = machine.threads] {
                                return std::make_unique<PointwiseKernel>(p.program, p.shape, p.strides, p.present, threads);
                              }});
}

void pointwise_gpu_offer(const BoundNode& b, const Machine& machine, Offer& offer) {
  std::string reason;
  if (const auto p = problem_of(b, reason))
    offer_pointwise_cuda(*p, *machine.gpu, offer);
  else
    offer.rejected.push_back({"cuda", reason});
}

}  // namespace smelt::ops
