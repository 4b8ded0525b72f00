#include "device/cpu/processes.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>

namespace smelt::device::cpu {
namespace {

namespace fs = std::filesystem;

/// Name, processor time and threads, of /proc/PID/stat: "12 (a name) S 1 …".
bool read_stat(const fs::path& folder, ProcessTimes& p) {
  std::ifstream file(folder / "stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t open = text.find('('), close = text.rfind(')');  // a name may have brackets
  if (open == std::string::npos || close == std::string::npos || close < open) return false;
  p.name = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  constexpr int user = 11, system = 12, threads = 17, resident = 21;  // fields behind the name, from 0
  std::string field;
  int64_t ticks = 0;
  for (int i = 0; rest >> field && i <= resident; ++i) {
    int64_t value = 0;
    std::from_chars(field.data(), field.data() + field.size(), value);
    if (i == user || i == system) ticks += value;
    if (i == threads) p.threads = static_cast<int>(value);
    if (i == resident) p.resident = value * sysconf(_SC_PAGESIZE);
  }
  p.cpu_ns = ticks * (1'000'000'000 / std::max(sysconf(_SC_CLK_TCK), 1L));
  return true;
}

}  // namespace

std::optional<ProcessTimes> times_of(int pid, const fs::path& proc) {
  ProcessTimes p;
  const fs::path folder = proc / std::to_string(pid);
  if (!read_stat(folder, p)) return std::nullopt;
  int64_t ran = 0;
  std::error_code gone;
  for (fs::directory_iterator at(folder / "task", gone), end; !gone && at != end; at.increment(gone)) {
    std::ifstream file(at->path() / "schedstat");
    int64_t ran_ns = 0, waited_ns = 0;
    if (file >> ran_ns >> waited_ns) ran += ran_ns, p.waited_ns += waited_ns;
  }
  p.cpu_ns = std::max(p.cpu_ns, ran);  // finer than ticks, but without threads that have ended
  return p;
}

std::map<int, ProcessTimes> all_process_times(const fs::path& proc) {
  std::map<int, ProcessTimes> all;
  std::error_code gone;
  for (fs::directory_iterator at(proc, gone), end; !gone && at != end; at.increment(gone)) {
    const std::string name = at->path().filename().string();
    int pid = 0;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    ProcessTimes p;
    if (error == std::errc() && stop == name.data() + name.size() && read_stat(at->path(), p)) all.emplace(pid, std::move(p));
  }
  return all;
}

std::vector<BusyProcess> busiest(const std::map<int, ProcessTimes>& before, const std::map<int, ProcessTimes>& after,
                                 double seconds, const std::vector<int>& left_out, size_t most) {
  std::vector<BusyProcess> list;
  for (const auto& [pid, p] : after) {
    if (std::ranges::find(left_out, pid) != left_out.end()) continue;
    const auto was = before.find(pid);
    const int64_t ran = p.cpu_ns - (was == before.end() ? 0 : was->second.cpu_ns);
    const double cores = seconds > 0 ? static_cast<double>(ran) * 1e-9 / seconds : 0;
    if (cores >= 0.01) list.push_back({pid, p.name, cores});
  }
  std::ranges::stable_sort(list, std::greater(), &BusyProcess::cores);
  if (list.size() > most) list.resize(most);
  return list;
}

}  // namespace smelt::device::cpu
