// A program over strided views of one shape: what every pointwise operator is, whichever kernel runs it.
#pragma once

#include <memory>
#include <vector>

#include "expr/program.h"
#include "ops/core/tactic.h"
#include "smelt/tensor.h"

namespace smelt::ops {

struct PointwiseProblem {
  expr::Program program;
  Shape shape;                      // of the outputs
  std::vector<Shape> strides;       // of each view along shape's axes, elements: inputs first, then outputs; 0 where it repeats
  std::vector<int64_t> alignments;  // of each view's first element, bytes
  std::vector<size_t> present;      // the node's inputs that the program reads, in order
  bool fused_multiply_add = true;   // false: each product is rounded before it is added to
  std::vector<Tensor> constants;    // of each input in `present`, valid where it is known before the run; empty: none is
};

/// The CUDA kernel that accesses `width` elements along the innermost axis at a time: 1, 2, 4 or 8.
std::unique_ptr<Kernel> pointwise_cuda(const PointwiseProblem& p, int64_t width, const Gpu& gpu);

}  // namespace smelt::ops
