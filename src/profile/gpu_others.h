// Who else uses a GPU that is profiled, by NVML, and what that costs.
#pragma once

#include <span>
#include <string>

#include "profile/profile.h"

namespace smelt::profile {

/// What the GPU of this DeviceInfo::uuid does while this process has it do nothing, for which the caller waited before: what
/// runs there is others'. Takes half a second. Nothing without NVML.
GpuUse watch_idle_gpu(const std::string& uuid);

/// What others' use cost the runs, whose times are `run_us`: `use` says whether there is any. A GPU that processes share is theirs in turns;
/// `own_us` is what a run has of it, its steps and the gaps between them, and what it takes beyond is the others'.
OtherWork other_gpu_work(GpuUse use, std::span<const double> run_us, double own_us);

}  // namespace smelt::profile
