// Normalisation: operators and tactics.
#pragma once

#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpDef> norm_ops();        // Batch-, Instance-, Group-, Layer-, RMS-, Lp-, …Normalization, LRN
std::span<const OpDef> fused_norm_ops();  // ai.smelt's Norm

extern const TacticFamily norm_family;  // offer.cpp

}  // namespace smelt::ops
