// Convolutions of 8-bit integers over several images that have scales of their own, one image after the other: each adds its scaled sums
// to those of the images before, in f32, and the last one has the program. In the order that ai.smelt's QLinearConv defines, so that the
// results are the same to the bit, whatever kernels the parts have.
#pragma once

#include <string_view>

#include "ops/core/family.h"

namespace smelt::ops::conv {

/// What their configurations end with.
inline constexpr std::string_view segments_apart = "segments apart";

/// Adds a candidate for each tactic that `offer` has for every part, each by its fastest configuration by the estimates.
void offer_segments_apart(const BoundNode& node, const Machine& machine, OfferTactics offer, Offer& o);

}  // namespace smelt::ops::conv
