// Pooling's tactics; offer.cpp lists them.
#pragma once

#include "ops/pool/problem.h"
#include "ops/pool/simd/rows.h"

namespace smelt::ops::pool {

/// The inner loops for this machine and pixels of so many channels.
const RowFunctions& row_functions(int64_t channels);

/// "cpu" for f32. `p` has one to three spatial axes, is channels-last on both sides, not empty, and has no window without a pixel.
void offer_channels_last(const BoundNode& b, const Problem& p, const Machine& machine, Offer& offer);
/// "cpu" for f16 and bf16. `p` has one to three spatial axes, is channels-last on both sides, not empty, and has no window without a pixel.
void offer_halves(const BoundNode& b, const Problem& p, const Machine& machine, Offer& offer);
void offer_onednn(const BoundNode& b, const Problem& p, const Machine& machine, Offer& offer);  // "onednn"

/// "cpu": windows over plain images of one to three axes, of every type.
void offer_direct(const BoundNode& b, const Machine& machine, Offer& offer);

/// "cpu": MaxUnpool, of every type whose elements are whole bytes.
void offer_unpool(const BoundNode& b, const Machine& machine, Offer& offer);

/// "cuda" and "cudnn".
void offer_cuda(const BoundNode& b, const Machine& machine, Offer& offer);

}  // namespace smelt::ops::pool
