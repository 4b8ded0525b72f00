// The reductions' tactics; offer.cpp lists them.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

void offer_reduce_cpu(const BoundNode& b, const Machine& machine, Offer& offer);    // "cpu": cpu_reduce.cpp
void offer_arg_cpu(const BoundNode& b, const Machine& machine, Offer& offer);       // "cpu": cpu_lines.cpp
void offer_top_k_cpu(const BoundNode& b, const Machine& machine, Offer& offer);     // "cpu": cpu_lines.cpp
void offer_hardmax_cpu(const BoundNode& b, const Machine& machine, Offer& offer);   // "cpu": cpu_lines.cpp
void offer_scan_cpu(const BoundNode& b, const Machine& machine, Offer& offer);      // "cpu": cpu_lines.cpp
void offer_scan_cuda(const BoundNode& b, const Machine& machine, Offer& offer);     // "cuda": cuda_scan.cpp
void offer_hardmax_cuda(const BoundNode& b, const Machine& machine, Offer& offer);  // "cuda": cuda_hardmax.cpp

}  // namespace smelt::ops
