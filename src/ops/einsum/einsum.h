// Einsum's loops, which faster tactics use too.
#pragma once

#include <vector>

#include "ops/core/operator.h"

namespace smelt::ops {

/// Extents and strides of the loops: first the output's axes, then those that are summed.
struct Contraction {
  Shape outer, summed;
  std::vector<Shape> outer_strides, summed_strides;  // one an operand, of dense operands
};

/// Of an Einsum over operands of these shapes. Throws Error for an equation that does not parse, or does not fit them.
Contraction einsum_contraction(const Node& n, const std::vector<Shape>& shapes);

}  // namespace smelt::ops
