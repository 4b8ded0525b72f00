// The tactics of what is generated or rearranged from a shape; offer.cpp lists them.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

void offer_generate_cpu(const BoundNode& b, const Machine& machine,
                        Offer& offer);  // "cpu": cpu_generate.cpp, all but Tile and the block moves, which movement has
void offer_random_cpu(const BoundNode& b, const Machine& machine, Offer& offer);     // "cpu": cpu_random.cpp
void offer_random_cuda(const BoundNode& b, const Machine& machine, Offer& offer);    // "cuda": cuda_random.cpp
void offer_generate_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_generate.cpp

}  // namespace smelt::ops
