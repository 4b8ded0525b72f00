// Convolutions of several inputs, or of an upsampled one, through an image that holds their channels one behind the other: what
// kernels of one image take.
#pragma once

#include <string_view>

#include "ops/core/family.h"

namespace smelt::ops::conv {

/// What their configurations end with.
inline constexpr std::string_view inputs_joined = "inputs joined";

/// Adds candidates for an ai.smelt Conv of several segments or upsampled ones: the two best that `offer` has for the convolution
/// of one image, by their estimates, with the copies before them. On the processor. Adds none where the segments' layouts differ.
void offer_joined(const BoundNode& node, const Machine& machine, OfferTactics offer, Offer& o);

}  // namespace smelt::ops::conv
