// Gathering and scattering by indices: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> gather_ops();  // and Scatter

extern const TacticFamily gather_family;  // offer.cpp

}  // namespace smelt::ops
