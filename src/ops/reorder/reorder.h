// The cost of putting a tensor into another layout.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

/// Microseconds to read the tensor in one layout and write it in another.
double reorder_estimate_us(const BoundTensor& t, const Machine& machine);

}  // namespace smelt::ops
