// Detection: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> detect_ops();  // NonMaxSuppression, RoiAlign, MaxRoiPool

extern const TacticFamily detect_family;  // offer.cpp

}  // namespace smelt::ops
