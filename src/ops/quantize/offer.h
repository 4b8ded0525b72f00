// Quantisation's tactics; offer.cpp lists them.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

void offer_dynamic_quantize_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_dynamic.cpp
void offer_linear_cpu(const BoundNode& b, const Machine& machine, Offer& offer);            // "cpu": cpu_linear.cpp
void offer_narrow_types_cuda(const BoundNode& b, const Machine& machine, Offer& offer);     // "cuda": cuda_narrow_types.cpp

}  // namespace smelt::ops
