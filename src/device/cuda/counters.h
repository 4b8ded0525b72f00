// What a GPU's counters say of work: CUPTI's range profiler, opened when first asked for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/device.h"
#include "device/cuda/library.h"

namespace smelt::device::cuda {

/// Counts the metrics of these names ("sm__throughput.avg.pct_of_peak_sustained_elapsed") of each kernel that `run` launches, at
/// most `most`, in their order; a metric that the GPU does not have is NaN. CUPTI runs each kernel as often as the counters need,
/// and puts memory back in between; `run` waits for the GPU before it returns. Nothing else of the process may use the GPU
/// meanwhile. Throws Error: unsupported without CUPTI of CUDA 12.6 or later, and where the system keeps counters to
/// administrators; failed where another profiler has them.
std::vector<std::vector<double>> count(const std::shared_ptr<Device>& device, const std::vector<std::string>& metrics,
                                       size_t most, const std::function<void()>& run);

/// Why count() cannot be asked on this machine; empty where CUPTI is there. Whether the system allows it only count() tells.
std::string counters_missing();

}  // namespace smelt::device::cuda
