// What convolutions cost (Facts::flops).
#pragma once

#include "ops/core/flops.h"

namespace smelt::ops {

/// Each output element sums over the weight's elements of one output channel; the weight is input `at`. The program's too.
int64_t conv_flops(const BoundNode& b, size_t at);
template <size_t at> int64_t conv_flops(const BoundNode& b) { return conv_flops(b, at); }
int64_t fused_conv_flops(const BoundNode& b);      // ai.smelt.Conv: the weight lies behind the segments of x
int64_t conv_transpose_flops(const BoundNode& b);  // ai.smelt's too

}  // namespace smelt::ops
