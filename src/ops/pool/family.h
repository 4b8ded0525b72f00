// Pooling: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> pool_ops();  // pooling over windows and planes, MaxUnpool

extern const TacticFamily pool_family;  // offer.cpp

}  // namespace smelt::ops
