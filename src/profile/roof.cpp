#include "profile/roof.h"

#include <fmt/core.h>
#include <sched.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace smelt::profile {
namespace {

std::filesystem::path file_for(const std::filesystem::path& dir, int threads) {
  const std::string cpu = cpu_model();
  const uint64_t hash = hash_bytes(cpu.data(), static_cast<int64_t>(cpu.size()));
  return dir / fmt::format("ceilings-{:016x}-{}.json", hash, threads > 0 ? threads : allowed_cores());
}

}  // namespace

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name") && line.find(':') + 2 < line.size()) return line.substr(line.find(':') + 2);
  return "unknown";
}

int allowed_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::optional<device::cpu::Ceilings> load_ceilings(const std::filesystem::path& dir, int threads) {
  std::error_code ignored;
  if (!std::filesystem::exists(file_for(dir, threads), ignored)) return std::nullopt;
  try {
    const auto j = nlohmann::json::parse(read_text(file_for(dir, threads)));
    device::cpu::Ceilings c;
    c.threads = j.at("threads");
    c.read_bytes_per_s = j.at("read_bytes_per_s");
    c.copy_bytes_per_s = j.at("copy_bytes_per_s");
    c.launch_us = j.at("launch_us");
    for (const auto& r : j.at("rates")) {
      const auto type = parse_dtype(r.at("type").get<std::string>());
      if (type) c.rates.push_back({*type, r.at("flops_per_s"), r.at("how")});
    }
    return c;
  } catch (const std::exception&) {
    return std::nullopt;   // damaged, or written by another version: as if it were not there; the next --measure replaces it
  }
}

void store_ceilings(const std::filesystem::path& dir, const device::cpu::Ceilings& c) {
  nlohmann::ordered_json j = {{"cpu", cpu_model()},
                              {"threads", c.threads},
                              {"read_bytes_per_s", c.read_bytes_per_s},
                              {"copy_bytes_per_s", c.copy_bytes_per_s},
                              {"launch_us", c.launch_us}};
  j["rates"] = nlohmann::json::array();
  for (const device::cpu::Rate& r : c.rates)
    j["rates"].push_back({{"type", std::string(name(r.type))}, {"flops_per_s", r.flops_per_s}, {"how", r.how}});
  std::filesystem::create_directories(dir);
  write_text(file_for(dir, c.threads), j.dump(2) + "\n");
}

Roof roof_of(const device::cpu::Ceilings& c) {
  Roof roof;
  roof.bytes_per_s = c.copy_bytes_per_s;
  roof.launch_us = c.launch_us;
  for (const device::cpu::Rate& r : c.rates) roof.flops_per_s[r.type] = r.flops_per_s;
  return roof;
}

}  // namespace smelt::profile
