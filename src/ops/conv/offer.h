// The convolution's tactics; offer.cpp lists them.
#pragma once

#include "ops/conv/problem.h"
#include "ops/cpu/epilogue.h"

namespace smelt::ops::conv {

/// What a tactic sees of a node.
struct Request {
  const BoundNode& node;
  const Machine& machine;
  Problem problem;
  Arguments at;
};

/// The constant bias; not valid() when there is none.
Tensor bias(const BoundNode& node, const Arguments& at);

void offer_indirect(const Request& r, Offer& offer);  // "avx2": src/ops/igemm
void offer_winograd(const Request& r, Offer& offer);  // "winograd": 3 x 3 windows in fewer multiplications
void offer_onednn(const Request& r, Offer& offer);    // "onednn"

}  // namespace smelt::ops::conv
