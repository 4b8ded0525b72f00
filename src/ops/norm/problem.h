// What ai.smelt.Norm and ONNX's LayerNormalization and RMSNormalization compute, whichever kernel runs them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "expr/program.h"
#include "ops/core/tactic.h"

namespace smelt::ops {

/// Where the parts of a normalisation are among the node's inputs and outputs.
struct NormParts {
  static constexpr size_t none = SIZE_MAX;
  explicit NormParts(const BoundNode& b);

  size_t residual = none, gamma = none, beta = none, first_operand = none, sum = none;
  size_t mean = none, inverse = none;  // outputs: each row's mean, and what it is multiplied by then
  bool centre = false;                 // LayerNorm; not: RMSNorm
  double epsilon = 1e-5;
  size_t axis = 0;  // the row is everything from this axis on
};

/// gamma and beta (where `with_parameters`) and the node's program, as one program over the normalised row: its input 0 is a row
/// of f32, the others are the node's inputs `operands`, in order. Nothing where there is nothing to compute.
std::optional<expr::Program> norm_program(const BoundNode& b, const NormParts& p, bool with_parameters,
                                          std::vector<size_t>& operands);

/// Why no kernel but the reference knows the node.
std::optional<Refusal> norm_unknown(const BoundNode& b);
/// Why kernels that read whole rows cannot run a node that norm_unknown has nothing against.
std::optional<Refusal> norm_rows_apart(const BoundNode& b);

/// Microseconds of a kernel of so many blocks that moves `moved` bytes: where there are fewer blocks than multiprocessors, what
/// one of them has to move decides.
double norm_estimate_us(const Gpu& gpu, double moved, int64_t blocks);

}  // namespace smelt::ops
