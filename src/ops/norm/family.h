// Normalisation: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> norm_ops();        // Batch-, Instance-, Group-, Layer-, RMS-, Lp-, …Normalization, LRN
std::span<const OpRow> fused_norm_ops();  // ai.smelt's Norm

extern const TacticFamily norm_family;  // offer.cpp

}  // namespace smelt::ops
