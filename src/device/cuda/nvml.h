// What a GPU is doing now, for any process: NVML, opened when first asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda/library.h"

namespace smelt::device::cuda {

struct GpuProcess {
  int pid = 0;  // in the driver's namespace: a container's own numbers differ
  std::optional<int64_t> memory_bytes;
};

/// What the GPU does not say is left out.
struct GpuState {
  std::optional<int> clock_mhz, max_clock_mhz;  // of the multiprocessors
  std::optional<int> memory_clock_mhz, max_memory_clock_mhz;
  std::vector<std::string> slowed_by;  // "power cap", "heat" …: why the clocks are not the highest
  bool idle = false;                   // they are low because nothing runs
  std::optional<int> celsius;
  std::optional<double> watts, watts_limit;
  std::optional<int> busy_percent;    // of the last sample (1/6 to 1 s), in which any kernel ran
  std::vector<GpuProcess> processes;  // with a context on it, this one among them where it is listed
};

/// Of the GPU with this DeviceInfo::uuid. Takes about a millisecond. Throws Error (unsupported) without NVML, or where NVML does
/// not know the GPU.
GpuState read_state(const std::string& uuid);
/// How much of the multiprocessors a process has had, in percent, on average over its samples.
struct ProcessUse {
  int pid = 0;  // as GpuProcess's
  double multiprocessors_percent = 0;
};
/// By process, from `since_us` (now_for_nvml()) on. Samples are up to a third of a second apart. None where the GPU does not say.
/// Throws as read_state() does.
std::vector<ProcessUse> read_process_use(const std::string& uuid, uint64_t since_us);
/// Microseconds on NVML's clock.
uint64_t now_for_nvml();
/// Why read_state() would throw for every GPU; empty when it would not.
std::string nvml_missing();
LibraryState nvml_library();

}  // namespace smelt::device::cuda
