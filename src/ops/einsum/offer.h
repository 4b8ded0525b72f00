// Einsum's tactics; offer.cpp lists them.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

void offer_einsum_cpu(const BoundNode& b, const Machine& machine, Offer& offer);   // "cpu" and MatMul's: cpu_einsum.cpp
void offer_det_cpu(const BoundNode& b, const Machine& machine, Offer& offer);      // "cpu": cpu_det.cpp
void offer_einsum_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_einsum.cpp

}  // namespace smelt::ops
