// Operators of which a GPU's thread does a whole line of x (src/kernels/reduce/lines.cuh).
#pragma once

#include <functional>
#include <string>

#include "ops/core/loops.h"
#include "ops/cuda/launches.h"

namespace smelt::ops {

struct LineKernel {
  AxisView view;                        // the lines
  int64_t count = 0;                    // of threads
  std::string body;                     // of lines.cuh: "hard_max"
  std::string arguments = "LineArgs";   // of kernels/reduce/lines.h
  std::function<void(Launch&)> others;  // appends what `arguments` have behind LineArgs; empty: nothing
};

/// Adds the candidate "lines", from input 0 to output 0.
void offer_lines_cuda(const BoundNode& b, LineKernel kernel, const Machine& machine, Offer& offer);

}  // namespace smelt::ops
