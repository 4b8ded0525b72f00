// What any process of the machine takes of it, from outside: procfs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace smelt::device::cpu {

/// Totals since it began. What the kernel does not say stays 0.
struct ProcessTimes {
  std::string name;       // of its program, at most 15 characters
  int64_t cpu_ns = 0;     // that its threads ran
  int64_t waited_ns = 0;  // that they were ready and had no core (schedstat of those that live)
  int64_t resident = 0;   // bytes
  int threads = 0;
};

/// Nothing where there is no such process, or where it is not shown to this one. `proc`: where procfs is mounted.
std::optional<ProcessTimes> times_of(int pid, const std::filesystem::path& proc = "/proc");

/// The processor time of every process that can be seen, and its name.
std::map<int, ProcessTimes> all_process_times(const std::filesystem::path& proc = "/proc");

struct BusyProcess {
  int pid = 0;
  std::string name;
  double cores = 0;  // that it used on average
};

/// Those that used most of the cores between two readings `seconds` apart, without `left_out`; none that used less than a
/// hundredth of a core.
std::vector<BusyProcess> busiest(const std::map<int, ProcessTimes>& before, const std::map<int, ProcessTimes>& after,
                                 double seconds, const std::vector<int>& left_out, size_t most);

}  // namespace smelt::device::cpu
