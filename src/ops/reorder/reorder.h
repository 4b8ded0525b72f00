// The cost of putting a tensor into another layout.
#pragma once

#include "ops/tactic.h"

namespace smelt::ops {

/// Bytes of one element; 0 where elements share bytes.
int64_t element_bytes(const BoundTensor& t);
/// Microseconds to read the tensor in one layout and write it in another.
double reorder_estimate_us(const BoundTensor& t, const Machine& machine);

}  // namespace smelt::ops
