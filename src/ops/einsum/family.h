// Einsum: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> einsum_ops();  // and Det

extern const TacticFamily einsum_family;  // offer.cpp

}  // namespace smelt::ops
