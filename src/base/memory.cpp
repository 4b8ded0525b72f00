#include "base/memory.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <limits>
#include <string>

#include "base/error.h"

namespace smelt {
namespace {

constexpr int64_t unknown = std::numeric_limits<int64_t>::max();
constexpr int64_t looked_at = int64_t{64} << 20;
std::atomic<int64_t> asked_for = 0;  // since it was looked

/// The number a file of the control group holds ("max": no limit).
int64_t limit_in(const char* path) {
  std::ifstream in(path);
  int64_t n = 0;
  return in >> n && n > 0 ? n : unknown;
}

int64_t system_available() {
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  for (int64_t kib = 0; in >> key >> kib; std::getline(in, unit))
    if (key == "MemAvailable:") return kib * 1024;
  return unknown;
}

}  // namespace

int64_t available_memory() {
  return std::min(
      {system_available(), limit_in("/sys/fs/cgroup/memory.max"), limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
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
