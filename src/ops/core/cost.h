// What a node must move and compute, whichever kernel runs it: the floor that measured times are held against.
#pragma once

#include <cstdint>

#include "ops/core/tactic.h"

namespace smelt::ops {

struct Cost {
  int64_t bytes = 0;  // each input, weight and output once; of tables that are indexed (Gather), the rows read
  int64_t flops = 0;  // multiply and add count as two; comparisons and conversions of types as none
};

/// Convolutions, products and attention by their definitions; softmax, normalisations, pooling, reductions and pointwise
/// operators by operations an element; operators that only move data have 0 flops.
Cost cost(const BoundNode& node);

}  // namespace smelt::ops
