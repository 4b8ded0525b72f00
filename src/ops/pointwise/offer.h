// The pointwise operators' tactics; offer.cpp lists them.
#pragma once

#include "ops/pointwise/problem.h"

namespace smelt::ops {

/// "cpu": cpu_pointwise.cpp.
void offer_pointwise_cpu(const PointwiseProblem& p, const Machine& machine, Offer& offer);
/// "cuda": cuda_pointwise.cpp.
void offer_pointwise_cuda(const PointwiseProblem& p, const Gpu& gpu, Offer& offer);

}  // namespace smelt::ops
