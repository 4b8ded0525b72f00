#include "profile/roof.h"

#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/threads.h"

namespace smelt::profile {
namespace {

std::filesystem::path file_for(const std::filesystem::path& dir, int threads) {
  const std::string cpu = cpu_model();
  const uint64_t hash = hash_bytes(cpu.data(), static_cast<int64_t>(cpu.size()));
  return dir / fmt::format("ceilings-{:016x}-{}.json", hash, threads > 0 ? threads : allowed_cores());
}

std::filesystem::path file_for(const std::filesystem::path& dir, const std::string& uuid) {
  return dir / fmt::format("ceilings-gpu-{:016x}.json", hash_bytes(uuid.data(), static_cast<int64_t>(uuid.size())));
}

std::optional<device::Ceilings> load(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  try {
    const auto j = nlohmann::json::parse(read_text(file));
    device::Ceilings c;
    c.threads = j.at("threads");
    c.read_bytes_per_s = j.at("read_bytes_per_s");
    c.copy_bytes_per_s = j.at("copy_bytes_per_s");
    c.launch_us = j.at("launch_us");
    c.under_load = j.value("under_load", false);
    for (const auto& r : j.at("rates")) {
      const auto type = parse_dtype(r.at("type").get<std::string>());
      if (type) c.rates.push_back({*type, r.at("flops_per_s"), r.at("how")});
    }
    return c;
  } catch (const std::exception&) {
    return std::nullopt;  // damaged, or written by another version: as if it were not there; the next --measure replaces it
  }
}

/// `j`: what they are of.
void store(const std::filesystem::path& file, nlohmann::ordered_json j, const device::Ceilings& c) {
  j["threads"] = c.threads;
  j["read_bytes_per_s"] = c.read_bytes_per_s;
  j["copy_bytes_per_s"] = c.copy_bytes_per_s;
  j["launch_us"] = c.launch_us;
  if (c.under_load) j["under_load"] = true;
  j["rates"] = nlohmann::json::array();
  for (const device::Rate& r : c.rates)
    j["rates"].push_back({{"type", std::string(name(r.type))}, {"flops_per_s", r.flops_per_s}, {"how", r.how}});
  make_folders(file.parent_path());
  write_text(file, j.dump(2) + "\n");
}

}  // namespace

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name") && line.find(':') + 2 < line.size()) return line.substr(line.find(':') + 2);
  return "unknown";
}

int allowed_cores() { return threads::usable_cores(); }

std::optional<device::Ceilings> load_ceilings(const std::filesystem::path& dir, int threads) {
  return load(file_for(dir, threads));
}

void store_ceilings(const std::filesystem::path& dir, const device::Ceilings& c) {
  store(file_for(dir, c.threads), {{"cpu", cpu_model()}}, c);
}

std::optional<device::Ceilings> load_gpu_ceilings(const std::filesystem::path& dir, const std::string& uuid) {
  return load(file_for(dir, uuid));
}

void store_gpu_ceilings(const std::filesystem::path& dir, const std::string& uuid, const std::string& gpu,
                        const device::Ceilings& c) {
  store(file_for(dir, uuid), {{"gpu", gpu}, {"uuid", uuid}}, c);
}

Roof roof_of(const device::Ceilings& c) {
  Roof roof;
  roof.bytes_per_s = c.copy_bytes_per_s;
  roof.launch_us = c.launch_us;
  roof.under_load = c.under_load;
  for (const device::Rate& r : c.rates) roof.flops_per_s[r.type] = r.flops_per_s;
  return roof;
}

}  // namespace smelt::profile
