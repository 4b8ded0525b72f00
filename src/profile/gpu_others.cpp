#include "profile/gpu_others.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "device/cuda/nvml.h"

namespace smelt::profile {
namespace {

constexpr auto watched = std::chrono::milliseconds(500);  // NVML's samples are up to a third of a second apart
constexpr double longer = 1.1;                            // than its steps and gaps

}  // namespace

GpuUse watch_idle_gpu(const std::string& uuid) {
  GpuUse use;
  if (!device::cuda::nvml_missing().empty()) return use;
  try {
    const uint64_t begin = device::cuda::now_for_nvml();
    std::this_thread::sleep_for(watched);
    const device::cuda::GpuState state = device::cuda::read_state(uuid);
    // The first samples may be of what this process did before.
    use.busy_percent = state.busy_percent.value_or(0);
    for (const device::cuda::ProcessUse& p : device::cuda::read_process_use(uuid, begin + 200'000)) {
      if (p.multiprocessors_percent <= 0) continue;
      GpuUse::Process& found = use.processes.emplace_back();
      found.pid = p.pid, found.busy_percent = p.multiprocessors_percent;
      for (const device::cuda::GpuProcess& held : state.processes)
        if (held.pid == p.pid) found.memory_bytes = held.memory_bytes.value_or(0);
    }
    std::ranges::stable_sort(use.processes, std::greater(), &GpuUse::Process::busy_percent);
  } catch (const Error&) {  // a GPU that NVML does not know
  }
  return use;
}

OtherWork other_gpu_work(GpuUse use, std::span<const double> run_us, double own_us) {
  OtherWork o;
  o.runs = static_cast<int>(run_us.size());
  const bool used = use.busy_percent > 0 || !use.processes.empty();
  o.gpu = std::move(use);
  if (!used || run_us.empty() || own_us <= 0) return o;
  o.disturbed = static_cast<int>(std::ranges::count_if(run_us, [&](double us) { return us > longer * own_us; }));
  if (o.disturbed > 0) o.cost_us = std::max(0.0, median(run_us) - own_us);
  return o;
}

}  // namespace smelt::profile
