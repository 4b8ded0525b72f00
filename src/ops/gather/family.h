// Gathering and scattering by indices: operators and tactics.
#pragma once

#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpDef> gather_ops();  // and Scatter

extern const TacticFamily gather_family;  // offer.cpp

}  // namespace smelt::ops
