// What the offers of "onednn" tactics share. Includes dnnl.hpp: for their sources only.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ops/onednn/bytes.h"
#include "ops/onednn/post_ops.h"

namespace smelt::ops::onednn {

/// An epilogue's program as post-operations of the primitive; nothing: it is simple, or runs in a pass of its own.
using Chain = std::optional<PostOps>;

/// `add` asks oneDNN for its implementations and adds them as candidates; it returns whether there are any. That there are none,
/// and oneDNN's errors, become rejections, which say so where the implementations were to run the program too.
void offer_found(Offer& offer, bool with_program, const std::function<bool()>& add);

/// Those whose 32-bit sums of bytes are exact (rejects_sums); the others are rejected.
std::vector<Implementation> exact(std::vector<Implementation> found, bool is_signed, const WeightRange& range, Offer& offer);

}  // namespace smelt::ops::onednn
