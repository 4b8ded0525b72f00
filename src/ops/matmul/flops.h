// What matrix products cost (Facts::flops).
#pragma once

#include "ops/core/flops.h"

namespace smelt::ops {

/// Two for each of the k products that an output element sums. The program's too.
int64_t matmul_flops(const BoundNode& b);
/// Of several products of one input.
int64_t joined_matmul_flops(const BoundNode& b);

}  // namespace smelt::ops
