// A bound tensor's memory, axis by axis.
#pragma once

#include "ops/tactic.h"

namespace smelt::ops {

/// Elements from one index to the next along each logical axis; the tensor must not be blocked.
Shape memory_strides(const BoundTensor& t);
/// memory_strides of t broadcast to a shape of `rank` axes: 0 along axes it does not have or has only one of.
Shape broadcast_strides(const BoundTensor& t, size_t rank);
/// True when the elements lie without gaps in the order of the layout.
bool is_dense(const BoundTensor& t);

}  // namespace smelt::ops
