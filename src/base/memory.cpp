#include "base/memory.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

#include "base/error.h"

namespace smelt {
namespace {

constexpr int64_t unknown = std::numeric_limits<int64_t>::max();
constexpr int64_t looked_at = int64_t{64} << 20;
std::atomic<int64_t> asked_for = 0;  // since it was looked

/// The number a file of the control group holds ("max": no limit).
int64_t number_in(const std::filesystem::path& path) {
  std::ifstream in(path);
  int64_t n = 0;
  return in >> n && n >= 0 ? n : unknown;
}

/// The value of a key in memory.stat; 0 where it is not there.
int64_t counted(const std::filesystem::path& stat, std::string_view key) {
  std::ifstream in(stat);
  std::string name;
  for (int64_t n = 0; in >> name >> n;)
    if (name == key) return n;
  return 0;
}

/// What a group's own limit leaves. Pages of files that are not in use give way, so they do not count as held.
int64_t left_in(const std::filesystem::path& folder, const char* limit, const char* held, const char* files) {
  const int64_t most = number_in(folder / limit), taken = number_in(folder / held);
  if (most == unknown || taken == unknown) return most;
  return std::max<int64_t>(0, most - std::max<int64_t>(0, taken - counted(folder / "memory.stat", files)));
}

int64_t left_in(const std::filesystem::path& folder) {
  return std::min(left_in(folder, "memory.max", "memory.current", "inactive_file"),
                  left_in(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"));
}

/// The least that a group and those that hold it leave, up to `root`. In a container the group's own folder may lie outside of
/// what is mounted: then `root` is it.
int64_t least_left(const std::filesystem::path& root, const std::filesystem::path& group) {
  int64_t least = left_in(root);
  std::filesystem::path folder = root;
  for (const auto& part : group.relative_path()) least = std::min(least, left_in(folder /= part));
  return least;
}

int64_t system_available() {
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  for (int64_t kib = 0; in >> key >> kib; std::getline(in, unit))
    if (key == "MemAvailable:") return kib * 1024;
  return unknown;
}

}  // namespace

int64_t group_memory(const std::string& groups, const std::filesystem::path& root) {
  int64_t least = unknown;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // "0::/user.slice", "4:memory:/docker/1f2a"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) least = std::min({least, least_left(root, group), least_left(root / "unified", group)});
    if (("," + controllers + ",").find(",memory,") != std::string::npos)
      least = std::min({least, least_left(root / controllers, group), least_left(root / "memory", group)});
  }
  return least;
}

int64_t available_memory() {
  std::ifstream file("/proc/self/cgroup");
  return std::min(system_available(), group_memory({std::istreambuf_iterator<char>(file), {}}, "/sys/fs/cgroup"));
}

void check_available(int64_t bytes, DType type, const Shape& shape) {
  if (bytes < looked_at && asked_for.fetch_add(bytes, std::memory_order_relaxed) + bytes < looked_at) return;
  asked_for.store(0, std::memory_order_relaxed);
  if (const int64_t available = available_memory(); std::max(bytes, looked_at) > available)
    throw Error(
        fmt::format("a tensor {}{} needs {} bytes, the machine has {} to give", name(type), to_string(shape), bytes, available),
        "Bind smaller extents (--shapes), or run where there is more memory.");
}

}  // namespace smelt
