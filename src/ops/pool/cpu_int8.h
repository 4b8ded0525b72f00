// Pooling of 8-bit images, channels last.
#pragma once

#include "ops/pool/problem.h"

namespace smelt::ops::pool {

/// MaxPool of bytes, and the mean over an image's pixels of bytes that the node's program dequantizes. `p` has four axes, is
/// channels-last on both sides, not empty, and has no window without a pixel. The result: why it
/// takes neither.
std::optional<Refusal> offer_integer(const BoundNode& node, const Problem& p, const Machine& machine, Offer& offer);

}  // namespace smelt::ops::pool
