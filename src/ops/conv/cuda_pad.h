// Images of few channels, copied with their padding in place (src/kernels/conv/pad.cuh).
#pragma once

#include <memory>

#include "ops/conv/cuda_implicit_problem.h"

namespace smelt::ops::conv {

/// Copies input 0 of a problem that is `padded` to the workspace, from its first byte on.
std::unique_ptr<Kernel> padding_kernel(const GpuRequest& r, const ImplicitProblem& p);

}  // namespace smelt::ops::conv
