// Pointwise operators: operators and tactics.
#pragma once

#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpDef> math_ops();                  // unary functions and predicates
std::span<const OpDef> activation_ops();            // Relu, Sigmoid, …
std::span<const OpDef> arithmetic_ops();            // binary, variadic, bitwise, Clip
std::span<const OpDef> logic_ops();                 // comparison, logic, Where
std::span<const OpDef> cast_ops();                  // Cast, CastLike
std::span<const OpDef> microsoft_activation_ops();  // ONNX Runtime's Gelus
std::span<const OpDef> fused_pointwise_ops();       // ai.smelt's Pointwise

extern const TacticFamily pointwise_family;  // offer.cpp

}  // namespace smelt::ops
