// What a GPU's counters say of work: CUPTI's range profiler, opened when first asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/device.h"
#include "device/cuda/library.h"

namespace smelt::device::cuda {

/// Who runs a kernel again for the counters that one run has no room for.
enum class Replay : uint8_t {
  kernel,  // CUPTI runs each kernel as often as it takes, and puts memory back in between: slow where there is much memory, and
           // what a kernel reads lies in the caches by then
  user,    // count() calls `run` as often as it takes: it has to launch the same kernels each time
};

/// Counts the metrics of these names ("sm__throughput.avg.pct_of_peak_sustained_elapsed") of each kernel that `run` launches, at
/// most `most`, in their order; a metric that the GPU does not have is NaN. `run` waits for the GPU before it returns. Nothing else of the process may use the GPU
/// meanwhile. Throws Error: unsupported without CUPTI of CUDA 12.6 or later, and where the system keeps counters to
/// administrators; failed where another profiler has them.
std::vector<std::vector<double>> count(const std::shared_ptr<Device>& device, const std::vector<std::string>& metrics,
                                       size_t most, const std::function<void()>& run, Replay replay = Replay::kernel);

/// Tells a profiler around this process (ncu --profile-from-start off) that what runs from here on is meant, until this goes.
class Watched {
 public:
  explicit Watched(std::shared_ptr<Device> device);
  ~Watched();
  Watched(const Watched&) = delete;

 private:
  std::shared_ptr<Device> device_;
};

/// Why count() cannot be asked on this machine; empty where CUPTI is there. Whether the system allows it only count() tells.
std::string counters_missing();

}  // namespace smelt::device::cuda
