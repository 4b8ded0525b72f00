// The tactics of gathering and scattering; offer.cpp lists them.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

void offer_gather_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_gather.cpp, Gather only
void offer_indexed_gather_cpu(const BoundNode& b, const Machine& machine,
                              Offer& offer);  // "cpu": cpu_indexed.cpp, GatherElements, GatherND, TensorScatter
void offer_scatter_cpu(const BoundNode& b, const Machine& machine, Offer& offer);   // "cpu": cpu_scatter.cpp
void offer_gather_cuda(const BoundNode& b, const Machine& machine, Offer& offer);   // "cuda": cuda_gather.cpp
void offer_scatter_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_scatter.cpp

}  // namespace smelt::ops
