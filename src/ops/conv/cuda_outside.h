// What sums of integers lack where kernels read zeros outside of the image, and the image's zero point is another number z:
//
//   Σ (x − z) · w over the taps inside  =  Σ x · w over them  +  (− z · Σ w over all taps)  +  z · Σ w over the taps outside
//
// The second term is one number a channel, the last one a channel and class of pixels: those under whose windows the same taps lie
// inside. The most, all of whose taps do, lack nothing. Its table, of i32, as an epilogue reads it at an index:
//
//   places   [OH, OW]             where the pixel's class begins, -1: nothing lacks; of a volume [OD, OH, OW]; then up to a multiple of 16
//   classes  (depth's, rows', columns') of [M up to a multiple of 16]
#pragma once

#include "ops/conv/cuda_implicit_problem.h"

namespace smelt::ops::conv {

inline constexpr int64_t most_outside = int64_t{1} << 24;

int64_t outside_elements(const ImplicitProblem& p);
Tensor outside_table(const Request& q, const ImplicitProblem& p, int32_t zero);

/// The table as an operand, on the device where there is one.
EpilogueOperand outside_operand(const GpuRequest& r, const ImplicitProblem& p);

}  // namespace smelt::ops::conv
