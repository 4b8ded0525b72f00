// A program that follows an operator as a pass of its own over the operator's result: what a fused node costs at most.
#pragma once

#include <string_view>

#include "ops/core/family.h"

namespace smelt::ops {

/// What their configurations end with.
inline constexpr std::string_view program_apart = "program apart";

/// Adds candidates for a node of float sums that ends with a program whose operands are the inputs from `first_operand` on: the
/// two best that `offer` has for the node without program, by their estimates, each followed by the program over its result (in
/// place where that has the output's type). On the processor. Adds none where the program cannot be run so.
void offer_with_pass(const BoundNode& node, size_t first_operand, const Machine& machine, OfferTactics offer, Offer& o);

}  // namespace smelt::ops
