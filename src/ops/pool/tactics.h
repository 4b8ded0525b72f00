// Pooling's tactics beside the channels-last one of offer.cpp.
#pragma once

#include "ops/pool/problem.h"

namespace smelt::ops::pool {

void offer_onednn(const BoundNode& b, const Problem& p, const Machine& machine, Offer& offer);   // "onednn"

}  // namespace smelt::ops::pool
