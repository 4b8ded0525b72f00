// Detection's tactics; offer.cpp lists them.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

void offer_roi_align_cpu(const BoundNode& b, const Machine& machine, Offer& offer);     // "cpu": cpu_roi_align.cpp
void offer_max_roi_pool_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_max_roi_pool.cpp
void offer_nms_cpu(const BoundNode& b, const Machine& machine, Offer& offer);           // "cpu": cpu_nms.cpp
void offer_nms_cuda(const BoundNode& b, const Machine& machine, Offer& offer);          // "cuda": cuda_nms.cpp
void offer_roi_align_cuda(const BoundNode& b, const Machine& machine, Offer& offer);    // "cuda": cuda_roi_align.cpp

}  // namespace smelt::ops
