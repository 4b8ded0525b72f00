#include "device/cuda/nvml.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>

#include "base/error.h"
#include "device/cuda/abi/nvml.h"
#include "device/cuda/library.h"

namespace smelt::device::cuda {
namespace {

using abi::Nvml;

Functions<Nvml> open() {
  Functions<Nvml> f({"NVML", {"libnvidia-ml.so.1"}, "with it smelt sees clocks, power, heat and who else uses the GPU"}, "");
  f.load(&Nvml::error_text, "nvmlErrorString");
#define X(name, symbol, ...) f.load(&Nvml::name, #symbol);
  SMELT_CUDA_NVML(X)
#undef X
  if (!f.missing().empty()) return f;
  if (const abi::NvmlResult r = f.get().init(); r != abi::nvml_success)
    f.refuse(fmt::format("NVML does not start: {}", f.get().error_text(r)));
  return f;
}

const Functions<Nvml>& opened() {
  static const Functions<Nvml> f = open();
  return f;
}

std::vector<std::string> names_of(unsigned long long slowdowns) {
  constexpr std::pair<abi::NvmlSlowdown, const char*> all[] = {{abi::nvml_application_clocks, "clocks set by hand"},
                                                               {abi::nvml_power_cap, "power cap"},
                                                               {abi::nvml_hardware_slowdown, "hardware slowdown"},
                                                               {abi::nvml_sync_boost, "sync boost"},
                                                               {abi::nvml_thermal, "heat"},
                                                               {abi::nvml_hardware_thermal, "heat (hardware)"},
                                                               {abi::nvml_power_brake, "power brake"},
                                                               {abi::nvml_display_clocks, "display's clocks"}};
  std::vector<std::string> names;
  for (const auto& [bit, name] : all)
    if (slowdowns & bit) names.emplace_back(name);
  return names;
}

std::vector<GpuProcess> processes_of(const abi::Nvml& api, abi::NvmlDevice device) {
  std::vector<abi::NvmlProcess> found(16);
  auto count = static_cast<unsigned>(found.size());
  abi::NvmlResult r = api.processes(device, &count, found.data());
  while (r == abi::nvml_insufficient_size) {  // count says how many there were; more may have come since
    found.resize(count + 16);
    count = static_cast<unsigned>(found.size());
    r = api.processes(device, &count, found.data());
  }
  std::vector<GpuProcess> processes;
  if (r != abi::nvml_success) return processes;
  for (unsigned i = 0; i < count; ++i) {
    processes.push_back({static_cast<int>(found[i].pid), std::nullopt});
    if (found[i].used_bytes != ~0ull) processes.back().memory_bytes = static_cast<int64_t>(found[i].used_bytes);
  }
  return processes;
}

abi::NvmlDevice find(const std::string& uuid) {
  const abi::Nvml& api = opened().get();
  abi::NvmlDevice device = nullptr;
  if (const abi::NvmlResult r = api.device_by_uuid(uuid.c_str(), &device); r != abi::nvml_success)
    fail_unsupported("NVML does not say what {} does: {}", uuid, api.error_text(r));
  return device;
}

}  // namespace

std::string nvml_missing() { return opened().missing(); }

LibraryState nvml_library() {
  std::array<char, 80> version{};
  if (nvml_missing().empty()) opened().get().version(version.data(), static_cast<unsigned>(version.size()));
  return opened().state(version.data());
}

uint64_t now_for_nvml() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

std::vector<ProcessUse> read_process_use(const std::string& uuid, uint64_t since_us) {
  const abi::Nvml& api = opened().get();
  abi::NvmlDevice device = find(uuid);
  unsigned count = 0;
  api.process_use(device, nullptr, &count, since_us);
  std::vector<abi::NvmlProcessUse> samples(count);
  if (count == 0 || api.process_use(device, samples.data(), &count, since_us) != abi::nvml_success) return {};
  samples.resize(std::min<size_t>(count, samples.size()));
  std::map<unsigned, std::pair<double, int>> sums;
  for (const abi::NvmlProcessUse& s : samples) {
    if (s.at_us < since_us) continue;
    sums[s.pid].first += s.multiprocessors, ++sums[s.pid].second;
  }
  std::vector<ProcessUse> all;
  for (const auto& [pid, sum] : sums) all.push_back({static_cast<int>(pid), sum.first / sum.second});
  return all;
}

GpuState read_state(const std::string& uuid) {
  const abi::Nvml& api = opened().get();
  abi::NvmlDevice device = find(uuid);
  GpuState s;
  unsigned value = 0;
  const auto number = [&value](abi::NvmlResult r) -> std::optional<int> {
    if (r != abi::nvml_success) return std::nullopt;
    return static_cast<int>(value);
  };
  s.clock_mhz = number(api.clock(device, abi::nvml_clock_multiprocessors, &value));
  s.max_clock_mhz = number(api.max_clock(device, abi::nvml_clock_multiprocessors, &value));
  s.memory_clock_mhz = number(api.clock(device, abi::nvml_clock_memory, &value));
  s.max_memory_clock_mhz = number(api.max_clock(device, abi::nvml_clock_memory, &value));
  s.celsius = number(api.temperature(device, abi::nvml_sensor_gpu, &value));
  if (const auto mw = number(api.power(device, &value))) s.watts = *mw / 1e3;
  if (const auto mw = number(api.power_limit(device, &value))) s.watts_limit = *mw / 1e3;
  if (abi::NvmlUtilization u{}; api.utilization(device, &u) == abi::nvml_success) s.busy_percent = static_cast<int>(u.gpu);
  if (unsigned long long reasons = 0; api.slowdowns(device, &reasons) == abi::nvml_success) {
    s.slowed_by = names_of(reasons);
    s.idle = (reasons & abi::nvml_idle) != 0;
  }
  s.processes = processes_of(api, device);
  return s;
}

}  // namespace smelt::device::cuda
