// Resizing's tactics; offer.cpp lists them.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

void offer_nearest_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_nearest.cpp, channels-last images
void offer_nearest_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_nearest.cpp
void offer_interpolation_cuda(const BoundNode& b, const Machine& machine,
                              Offer& offer);  // "cuda": cuda_resize.cpp, linear and cubic
void offer_grid_sample_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_grid.cpp

}  // namespace smelt::ops
