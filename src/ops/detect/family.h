// Detection: operators and tactics.
#pragma once

#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpDef> detect_ops();  // NonMaxSuppression, RoiAlign, MaxRoiPool

extern const TacticFamily detect_family;  // offer.cpp

}  // namespace smelt::ops
