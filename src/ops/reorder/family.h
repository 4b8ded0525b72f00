// ai.smelt's Reorder: a tensor in another layout: tactics.
#pragma once

#include "ops/core/family.h"

namespace smelt::ops {

extern const TacticFamily reorder_family;  // offer.cpp

}  // namespace smelt::ops
