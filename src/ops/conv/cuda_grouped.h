// What the kernel for groups of few channels and for transposed convolutions is given (src/kernels/conv/grouped.cuh).
#pragma once

#include "kernels/conv/grouped.h"
#include "ops/conv/problem.h"

namespace smelt::ops::conv {

/// A spatial axis, from which each output's first tap and the pixel under it follow (kernels::grouped_begin).
kernels::GroupedAxis grouped_axis(const Problem& p, size_t axis);

}  // namespace smelt::ops::conv
