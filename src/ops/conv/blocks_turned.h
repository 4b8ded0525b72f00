// Convolutions of 8-bit integers whose images lie in blocks of channels ([N, C / 32, spatial…, 32]), as one of channels-last images with a
// copy of each image before and behind it: blocks have one kernel (walked), channels-last images have all. The copies' time counts as
// the candidate's, so that a plan compares the two layouts.
#pragma once

#include <string_view>

#include "ops/core/family.h"

namespace smelt::ops::conv {

/// What their configurations end with.
inline constexpr std::string_view blocks_turned = "blocks turned";

/// Adds a candidate for each tactic that `offer` has for the channels-last problem, each by its fastest configuration by the estimates.
void offer_blocks_turned(const BoundNode& node, const Machine& machine, OfferTactics offer, Offer& o);

/// Of a problem whose images lie channels-last, and might lie in blocks of channels as well: what it would take so, and why it does not
/// lie so, as a refusal. Nothing for other problems. Behind all other offers.
void price_blocks(const BoundNode& node, Offer& o);

}  // namespace smelt::ops::conv
