// oneDNN's tactics for operators that work on rows; offered beside those of softmax.cpp and norm.cpp.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

void softmax_offer_onednn(const BoundNode& b, const Machine& machine, Offer& offer);
/// A layer normalisation without residual or program. `gamma`, `beta`: the node's inputs; SIZE_MAX: none.
void norm_offer_onednn(const BoundNode& b, size_t axis, size_t gamma, size_t beta, double epsilon, const Machine& machine,
                       Offer& offer);

}  // namespace smelt::ops
