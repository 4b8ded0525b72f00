// What a process may use of the processors.
#include <sched.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/threads.h"

namespace smelt::threads {
namespace {

int cores(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return INT_MAX;
  return static_cast<int>(std::clamp<double>((quota + period - 1) / period, 1, INT_MAX));
}

/// Of one group's folder: "200000 100000" or "max 100000" in cpu.max, or two files of version 1, where -1 is no quota.
int cores_of(const std::filesystem::path& folder) {
  double quota = 0, period = 0;
  if (std::ifstream file(folder / "cpu.max"); file >> quota >> period) return cores(quota, period);
  std::ifstream quotas(folder / "cpu.cfs_quota_us"), periods(folder / "cpu.cfs_period_us");
  return quotas >> quota && periods >> period ? cores(quota, period) : INT_MAX;
}

/// The least of a group and those that hold it, up to `root`. In a container the group's own folder may lie outside of what is
/// mounted: then `root` is it.
int least_cores(const std::filesystem::path& root, const std::filesystem::path& group) {
  int least = cores_of(root);
  std::filesystem::path folder = root;
  for (const auto& part : group.relative_path()) least = std::min(least, cores_of(folder /= part));
  return least;
}

}  // namespace

int quota_cores(const std::string& groups, const std::filesystem::path& root) {
  int least = INT_MAX;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // "0::/user.slice", "4:cpu,cpuacct:/docker/1f2a"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) least = std::min({least, least_cores(root, group), least_cores(root / "unified", group)});
    if (("," + controllers + ",").find(",cpu,") != std::string::npos)
      least = std::min({least, least_cores(root / controllers, group), least_cores(root / "cpu", group)});
  }
  return least;
}

int usable_cores() {
  static const int paid_for = [] {
    std::ifstream file("/proc/self/cgroup");
    return quota_cores({std::istreambuf_iterator<char>(file), {}}, "/sys/fs/cgroup");
  }();
  cpu_set_t set;
  CPU_ZERO(&set);
  return std::clamp(sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1, 1, paid_for);
}

}  // namespace smelt::threads
