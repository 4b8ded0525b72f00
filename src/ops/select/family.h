// Outputs whose size depends on data, sorting: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> select_ops();  // Compress, NonZero, Unique, ReverseSequence

extern const TacticFamily select_family;  // offer.cpp

}  // namespace smelt::ops
