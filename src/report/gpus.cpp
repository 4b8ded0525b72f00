#include "report/gpus.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "device/cuda/activity.h"
#include "device/cuda/compiler.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/cudnn.h"
#include "device/cuda/device.h"
#include "device/cuda/nvml.h"

namespace smelt::report {
namespace {

namespace cuda = device::cuda;

std::string version_text(int cuda_version) { return fmt::format("{}.{}", cuda_version / 1000, cuda_version % 1000 / 10); }

/// Nothing if NVML does not say.
std::optional<cuda::GpuState> state_of(const cuda::DeviceInfo& gpu) {
  try {
    return cuda::read_state(gpu.uuid);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// "1980 of 1980 MHz"; a dash for an unknown number.
std::string of_most(const std::optional<int>& now, const std::optional<int>& most, std::string_view unit) {
  const auto text = [](const std::optional<int>& v) { return v ? std::to_string(*v) : "-"; };
  return now || most ? fmt::format("{} of {} {}", text(now), text(most), unit) : "";
}

std::string slowed_text(const cuda::GpuState& s) {
  return !s.slowed_by.empty() ? fmt::format("{}", fmt::join(s.slowed_by, ", ")) : s.idle ? "idle" : "";
}

Cell bytes_cell(int64_t bytes) { return {static_cast<double>(bytes), Unit::bytes}; }

/// One fact in each row, so that a terminal shows all of them.
Table fact_table(const cuda::DeviceInfo& gpu, const std::optional<cuda::GpuState>& state, bool as_json) {
  Table t{.key = fmt::format("gpu{}", gpu.ordinal),
          .title = fmt::format("GPU {}", gpu.ordinal),
          .columns = {{"what", ""}, {"value", ""}}};
  const auto add = [&](const char* key, const char* title, Cell value) {
    t.rows.push_back({as_json ? key : title, std::move(value)});
  };
  add("name", "name", gpu.name);
  add("uuid", "identity", gpu.uuid);
  add("arch", "architecture", gpu.arch);
  add("driver", "driver", fmt::format("CUDA {}", version_text(gpu.driver)));
  add("memory_bytes", "memory", bytes_cell(gpu.memory_bytes));
  try {
    add("free_bytes", "free memory", bytes_cell(cuda::Device::open(gpu.ordinal)->free_bytes()));
  } catch (const Error& e) {
    add("unusable", "cannot be used", std::string(e.what()));
  }
  add("l2_bytes", "L2 cache", bytes_cell(gpu.l2_bytes));
  add("multiprocessors", "multiprocessors", gpu.multiprocessors);
  if (!state) {
    add("state_unknown", "clocks and processes", cuda::nvml_missing());
    return t;
  }
  const auto known = [&](const char* key, const char* title, const std::string& text) {
    if (!text.empty()) add(key, title, text);
  };
  known("clock", "clock", of_most(state->clock_mhz, state->max_clock_mhz, "MHz"));
  known("memory_clock", "memory's clock", of_most(state->memory_clock_mhz, state->max_memory_clock_mhz, "MHz"));
  known("slowed_by", "clocks held down by", slowed_text(*state));
  if (state->watts) add("watts", "power", fmt::format("{:.0f} of {:.0f} W", *state->watts, state->watts_limit.value_or(0)));
  if (state->celsius) add("celsius", "heat", fmt::format("{} °C", *state->celsius));
  if (state->busy_percent) add("busy", "busy", Cell(*state->busy_percent / 100.0, Unit::percent));
  return t;
}

Table process_table(const cuda::DeviceInfo& gpu, const cuda::GpuState& state) {
  Table t{.key = fmt::format("gpu{}_processes", gpu.ordinal),
          .title = fmt::format("Processes on GPU {}", gpu.ordinal),
          .columns = {{"pid", "pid"}, {"memory_bytes", "memory", Unit::bytes}}};
  for (const cuda::GpuProcess& p : state.processes) t.rows.push_back({std::to_string(p.pid), known(p.memory_bytes)});
  return t;
}

std::vector<cuda::LibraryState> libraries() {
  return {cuda::compiler_library(), cuda::cublaslt_library(), cuda::cudnn_library(), cuda::activity_library(),
          cuda::nvml_library()};
}

Table library_table() {
  Table t{.key = "libraries",
          .title = "NVIDIA's libraries",
          .columns = {{"library", "library"}, {"version", "version"}, {"state", "found as"}}};
  for (const cuda::LibraryState& l : libraries()) t.rows.push_back({l.name, l.version, l.missing.empty() ? l.path : l.missing});
  return t;
}

}  // namespace

std::vector<Fact> gpu_facts(const cuda::DeviceInfo& gpu) {
  return {{"gpu", "GPU", gpu.name},
          {"gpu_arch", "its architecture", gpu.arch},
          {"gpu_memory_bytes", "its memory", bytes_cell(gpu.memory_bytes)},
          {"gpu_clock_mhz", "its clock at most, MHz", gpu.clock_mhz}};
}

std::vector<Fact> library_facts(std::span<const cuda::LibraryState> libraries) {
  std::vector<Fact> facts;
  for (const cuda::LibraryState& l : libraries) {
    if (!l.missing.empty()) continue;
    std::string key = l.name;
    std::ranges::transform(key, key.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    facts.push_back({std::move(key), l.name, l.version});
  }
  return facts;
}

void add_gpu_facts(const std::string& device, std::vector<Fact>& machine, std::vector<Fact>& versions) {
  const std::optional<int> ordinal = cuda::ordinal_of(device);
  if (!ordinal || *ordinal >= static_cast<int>(cuda::devices().size())) return;
  const cuda::DeviceInfo& gpu = cuda::devices()[static_cast<size_t>(*ordinal)];
  std::ranges::move(gpu_facts(gpu), std::back_inserter(machine));
  versions.push_back({"driver", "GPU driver", fmt::format("CUDA {}", version_text(gpu.driver))});
  std::ranges::move(library_facts(libraries()), std::back_inserter(versions));
}

void add_gpu_tables(std::vector<Table>& tables, bool as_json) {
  if (cuda::devices().empty()) {
    if (as_json)
      tables.push_back(
          {.key = "no_gpu", .title = "No GPU", .columns = {{"why", ""}}, .rows = {{cuda::devices_missing()}}, .note = ""});
    return;
  }
  for (const cuda::DeviceInfo& gpu : cuda::devices()) {
    const auto state = state_of(gpu);
    tables.push_back(fact_table(gpu, state, as_json));
    if (state && !state->processes.empty()) tables.push_back(process_table(gpu, *state));
  }
  tables.push_back(library_table());
}

}  // namespace smelt::report
