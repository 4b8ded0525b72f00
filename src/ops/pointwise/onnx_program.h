// Pointwise operators, one by one, as programs.
#pragma once

#include <optional>
#include <span>

#include "expr/program.h"
#include "ops/core/tactic.h"

namespace smelt::ops {

/// True for ai.smelt.Pointwise and for operators that the expression language has.
bool is_pointwise(const Node& n);

/// The inputs whose elements it reads (Facts::operands).
std::span<const BoundTensor> pointwise_inputs(const BoundNode& b);

/// The program that the node computes over its present inputs in their own types, in order; f16 and bf16 are computed in f32
/// and rounded at the end. Nothing when a type has no program.
std::optional<expr::Program> program_of(const BoundNode& b);

}  // namespace smelt::ops
