// Reductions, and what works along one axis: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> reduce_ops();        // Reduce…
std::span<const OpRow> along_axis_ops();    // ArgMax, TopK, Hardmax, CumSum, …
std::span<const OpRow> fused_reduce_ops();  // ai.smelt's Reduce

extern const TacticFamily reduce_family;  // offer.cpp

}  // namespace smelt::ops
