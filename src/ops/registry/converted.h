// A node whose types no kernel has, by the kernels of types that hold all its numbers: its tensors are converted before and behind
// them. It is what the references do with 16-bit floats, which compute in f32 and round once, and with integers where an
// operator is one of sums and products, or of doubles. On a GPU the conversions are kernels too.
#pragma once

#include <functional>
#include <memory>

#include "ops/core/tactic.h"

namespace smelt::ops {

/// What the configurations of such candidates end with: " as f32".
inline constexpr std::string_view converted_suffixes[] = {" as f32", " as f64", " as i32", " as u32"};
bool is_converted(std::string_view config);

/// Adds the kernel candidates that `offer_inner` has for the node in other types, the nearest ones that have any, with their
/// conversions around them; no reference. Nothing where the node is not defined by such a conversion.
void offer_converted(const BoundNode& node, const Machine& machine, const Wanted& wanted,
                     const std::function<void(const BoundNode&, const Wanted&, Offer&)>& offer_inner, Offer& offer);

}  // namespace smelt::ops
