// Pointwise operators, ai.smelt's and ONNX's own, and their tactics.
#include "ops/pointwise/offer.h"

#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/pointwise/cpu_sweep.h"
#include "ops/pointwise/family.h"
#include "ops/pointwise/onnx_program.h"

namespace smelt::ops {
namespace {

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
    p.present.push_back(i);
    add(b.inputs[i], broadcast_strides(b.inputs[i], p.shape.size()));
  }
  for (const BoundTensor& t : b.outputs) {
    if (t.type == DType::undefined) return reason = "an output is left out", std::nullopt;
    add(t, memory_strides(t));
  }
  if (auto why = Sweep::rejects(p.program, p.shape, std::span(p.strides).subspan(p.present.size())))
    return reason = *why, std::nullopt;
  return p;
}

void offer_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  std::string reason;
  if (const auto p = problem_of(b, reason))
    offer_pointwise_cpu(*p, machine, offer);
  else
    offer.rejected.push_back({"cpu", reason});
}

void offer_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  std::string reason;
  if (const auto p = problem_of(b, reason))
    offer_pointwise_cuda(*p, *machine.gpu, offer);
  else
    offer.rejected.push_back({"cuda", reason});
}

constexpr OperatorTactics operators[] = {
    {is_pointwise, offer_cpu, offer_cuda},
};

}  // namespace

constinit const TacticFamily pointwise_family{operators};

}  // namespace smelt::ops
