// Pooling's tactics beside the channels-last one of offer.cpp.
#pragma once

#include "ops/pool/problem.h"
#include "ops/pool/simd/rows.h"

namespace smelt::ops::pool {

/// The inner loops for this machine.
const RowFunctions& row_functions();

/// "cpu" for f16 and bf16. `p` has four axes, is channels-last on both sides, not empty, and has no window without a pixel.
void offer_halves(const BoundNode& b, const Problem& p, const Machine& machine, Offer& offer);
void offer_onednn(const BoundNode& b, const Problem& p, const Machine& machine, Offer& offer);  // "onednn"

}  // namespace smelt::ops::pool
