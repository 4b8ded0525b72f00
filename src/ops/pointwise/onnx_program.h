// ONNX's pointwise operators, one by one, as programs.
#pragma once

#include <optional>
#include <span>

#include "expr/program.h"
#include "ops/core/tactic.h"

namespace smelt::ops {

/// True for ai.smelt.Pointwise and for ONNX operators that are one call of the expression language.
bool is_pointwise(const Node& n);

/// The inputs that it reads: CastLike's second is only there for its type, Dropout's others say what it does.
std::span<const BoundTensor> pointwise_inputs(const BoundNode& b);

/// The program that the node computes over its present inputs in their own types, in order; f16 and bf16 are computed in f32
/// and rounded at the end. Nothing when a type has no program.
std::optional<expr::Program> program_of(const BoundNode& b);

}  // namespace smelt::ops
