// Reorder's tactics; offer.cpp lists them.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

void offer_reorder_cpu(const BoundNode& b, const Machine& machine, Offer& offer);   // "cpu": cpu_reorder.cpp
void offer_reorder_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_reorder.cpp

}  // namespace smelt::ops
