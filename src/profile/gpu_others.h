// Who else uses a GPU that is profiled, by NVML, and what that costs.
#pragma once

#include <span>
#include <string>

#include "profile/profile.h"

namespace smelt::profile {

/// What the GPU of this DeviceInfo::uuid does while this process has it do nothing, for which the caller waited before: what
/// runs there is others'. Takes half a second. Nothing without NVML.
GpuUse watch_idle_gpu(const std::string& uuid);

/// What others' use cost the runs, by their times: `use` says whether there is any. Runs that take a tenth longer than the fastest
/// are disturbed then, and the fastest is what a run takes alone.
OtherWork other_gpu_work(GpuUse use, std::span<const double> run_us);

}  // namespace smelt::profile
