// Selection's tactics; offer.cpp lists them.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

void offer_find_cpu(const BoundNode& b, const Machine& machine, Offer& offer);      // "cpu": cpu_find.cpp
void offer_compact_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_compact.cpp
void offer_top_k_cuda(const BoundNode& b, const Machine& machine, Offer& offer);    // "cuda": cuda_top_k.cpp
void offer_unique_cuda(const BoundNode& b, const Machine& machine, Offer& offer);   // "cuda": cuda_unique.cpp

}  // namespace smelt::ops
