// Pointwise operators, ai.smelt's and ONNX's own, and their tactics.
#include "ops/pointwise/offer.h"

#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/pointwise/cpu_sweep.h"
#include "ops/pointwise/family.h"
#include "ops/pointwise/onnx_program.h"

namespace smelt::ops {
namespace {

/// What the node computes and how its operands lie; refused where it cannot be said so.
Result<PointwiseProblem> problem_of(const BoundNode& b) {
  const auto program = program_of(b);
  if (!program) return refuse(Reason::wrong_type, "the expression language has no program for its types");
  PointwiseProblem p{*program, b.outputs[0].shape};
  const auto add = [&](const BoundTensor& t, Shape strides) {
    p.strides.push_back(std::move(strides));
    p.alignments.push_back(t.alignment);
  };
  for (size_t i = 0; i < pointwise_inputs(b).size(); ++i) {
    if (b.inputs[i].type == DType::undefined) continue;
    p.present.push_back(i);
    p.constants.push_back(all_plain(b) ? b.inputs[i].constant : Tensor());
    add(b.inputs[i], broadcast_strides(b.inputs[i], p.shape.size()));
  }
  for (const BoundTensor& t : b.outputs) {
    if (t.type == DType::undefined) return refuse(Reason::unsupported, "an output is left out");
    add(t, memory_strides(t));
  }
  if (auto why = Sweep::rejects(p.program, p.shape, std::span(p.strides).subspan(p.present.size()))) return *why;
  return p;
}

void offer_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<PointwiseProblem> p = problem_of(b);
  if (!p) return offer.refuse("cpu", p.refusal());
  offer_pointwise_cpu(*p, machine, offer);
}

void offer_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<PointwiseProblem> p = problem_of(b);
  if (!p) return offer.refuse("cuda", p.refusal());
  offer_pointwise_cuda(*p, *machine.gpu, offer);
}

constexpr OperatorTactics operators[] = {
    {is_pointwise, offer_cpu, offer_cuda},
};

}  // namespace

constinit const TacticFamily pointwise_family{operators};

}  // namespace smelt::ops
