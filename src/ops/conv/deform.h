// What a DeformConv computes, for its reference and its kernels.
#pragma once

#include "ops/conv/conv.h"

namespace smelt::ops {

struct Deform {
  ConvProblem conv;
  int64_t groups = 1;  // of offsets
};

/// Throws Error for attributes and shapes that do not fit.
Deform deform_problem(const Node& node, const Shape& x, const Shape& w, const Shape& offset);

}  // namespace smelt::ops
