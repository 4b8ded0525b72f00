// Pointwise operators: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> math_ops();                  // unary functions and predicates
std::span<const OpRow> activation_ops();            // Relu, Sigmoid, …
std::span<const OpRow> arithmetic_ops();            // binary, variadic, bitwise, Clip
std::span<const OpRow> logic_ops();                 // comparison, logic, Where
std::span<const OpRow> cast_ops();                  // Cast, CastLike
std::span<const OpRow> microsoft_activation_ops();  // ONNX Runtime's Gelus
std::span<const OpRow> fused_pointwise_ops();       // ai.smelt's Pointwise

extern const TacticFamily pointwise_family;  // offer.cpp

}  // namespace smelt::ops
