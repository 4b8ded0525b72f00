// What the processor's reductions share: a reduction as a program before it, a fold and a program behind it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/refusal.h"
#include "ops/core/tactic.h"
#include "ops/cpu/rows/rows.h"
#include "ops/reduce/reduction.h"

namespace smelt::ops {

/// What a node reduces: ONNX's operators in the fused one's terms.
struct ReduceProblem {
  expr::Program before;
  std::optional<expr::Program> post;
  ReduceKind kind = ReduceKind::sum;
  std::vector<int64_t> axes;  // normalised
  size_t inputs_before = 1;   // inputs from here on are post's
  size_t inputs = 1;          // of both programs together
  bool none = false;          // no axis is reduced; otherwise no axes are all
};

/// The problem of an ai.smelt.Reduce, of one of ONNX's reductions or of a pooling over whole planes; nothing for another operator.
/// Refused where the kernel below cannot run it.
std::optional<Result<ReduceProblem>> reduce_problem(const BoundNode& b);
/// Why the kernel cannot write the result.
std::optional<Refusal> rejects_result(const ReduceProblem& p, const BoundTensor& y);
std::unique_ptr<Kernel> reduce_kernel(const BoundNode& b, const ReduceProblem& p, int threads);

/// The axes of a reduction or of a pooling over whole planes: nothing for none of them, refused where they are computed.
Result<std::optional<std::vector<int64_t>>> listed_axes(const BoundNode& b);
/// What values of a type are folded in; undefined for what has no kernel. `real`: integers are computed in f64.
DType folded(DType t, bool real);

/// "bytes": cpu_bytes.cpp. False where it is not offered.
bool offer_byte_sums(const BoundNode& b, const ReduceProblem& p, const Machine& machine, Offer& offer);
void offer_log_sum_exp(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_log_sum_exp.cpp

}  // namespace smelt::ops
