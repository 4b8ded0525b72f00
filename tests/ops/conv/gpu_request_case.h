// The request of a convolution on a made-up GPU, as its tactics see it: for tests that need none.
#pragma once

#include <string_view>

#include "ops/conv/cuda_request.h"
#include "ops/cuda/gpu.h"
#include "ops/tactic_check.h"

namespace smelt::ops::conv {

/// `t` must outlive it.
inline GpuRequest request(Trial& t, std::string_view arch = "sm_90a") {
  t.bound.node = &t.node;
  Machine machine;
  machine.gpu = gpu_of_arch(arch);
  return **gpu_request(t.bound, machine);
}

}  // namespace smelt::ops::conv
