// Inverse (com.microsoft): its row of the operator table, and its tactic.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/tactic.h"

namespace smelt::ops {

std::span<const OpRow> inverse_ops();
void offer_inverse_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_inverse.cpp

}  // namespace smelt::ops
