// What formulas of costs read (Facts::flops).
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

int64_t present_elements(const BoundTensor& t);             // 0 where it is left out
const BoundTensor& input_of(const BoundNode& b, size_t i);  // one that is left out beyond the last
int64_t program_flops(const BoundNode& b);                  // of the node's program, once for each element of output 0

/// One for each element under each window of kernel_shape.
int64_t pool_flops(const BoundNode& b);

}  // namespace smelt::ops
