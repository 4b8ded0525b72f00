// Pooling: operators and tactics.
#pragma once

#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpDef> pool_ops();  // pooling over windows and planes, MaxUnpool

extern const TacticFamily pool_family;  // offer.cpp

}  // namespace smelt::ops
