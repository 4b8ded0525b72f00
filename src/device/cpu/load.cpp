#include "device/cpu/load.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/threads.h"

namespace smelt::device::cpu {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point t) { return std::chrono::duration<double, std::micro>(Clock::now() - t).count(); }

/// "cpu3" is one of the processors that this process may use.
bool is_ours(const std::string& name, const cpu_set_t& ours) {
  int number = 0;
  const char* const end = name.data() + name.size();
  if (!name.starts_with("cpu") || std::from_chars(name.data() + 3, end, number).ptr != end || name.size() == 3) return false;
  return number < CPU_SETSIZE && CPU_ISSET(static_cast<size_t>(number), &ours);
}

/// cpu.stat of the group and of those that hold it, below `root`.
void add_quota_files(std::vector<fs::path>& files, const fs::path& root, const fs::path& group) {
  std::error_code missing;
  fs::path folder = root;
  const auto add = [&] {
    const fs::path file = folder / "cpu.stat";
    if (fs::exists(file, missing) && std::ranges::find(files, file) == files.end()) files.push_back(file);
  };
  add();
  for (const auto& part : group.relative_path()) {
    folder /= part;
    add();
  }
}

/// A thread's clock as pthread_getcpuclockid() makes it, of the number alone. schedstat has the same time, but as of the last tick.
clockid_t clock_of(const std::string& thread) {
  int number = 0;
  std::from_chars(thread.data(), thread.data() + thread.size(), number);
  constexpr clockid_t of_a_thread = 4, on_cores = 2;
  return static_cast<clockid_t>(~static_cast<unsigned>(number) << 3) | of_a_thread | on_cores;
}

int64_t thread_time_ns(clockid_t clock) {
  timespec t{};
  return clock_gettime(clock, &t) == 0 ? t.tv_sec * 1'000'000'000 + t.tv_nsec : 0;
}

int64_t waited_ns(int schedstat) {
  char text[96];  // "ran_ns waited_ns slices"
  const ssize_t n = pread(schedstat, text, sizeof text, 0);
  const char* const end = text + std::max<ssize_t>(n, 0);
  const char* const second = std::find(text, const_cast<char*>(end), ' ');
  int64_t waited = 0;
  if (second != end) std::from_chars(second + 1, end, waited);
  return waited;
}

/// "throttled_usec" of version 2, "throttled_time" (ns) of version 1.
int64_t throttled_ns(const fs::path& file) {
  std::ifstream in(file);
  std::string key;
  for (int64_t value = 0; in >> key >> value;) {
    if (key == "throttled_usec") return 1000 * value;
    if (key == "throttled_time") return value;
  }
  return 0;
}

}  // namespace

Interruptions Interruptions::operator-(const Interruptions& b) const {
  return {waited_ns - b.waited_ns, preempted - b.preempted, stolen_ns - b.stolen_ns, throttled_ns - b.throttled_ns};
}

LoadMeter::LoadMeter(fs::path proc, const fs::path& groups) : proc_(std::move(proc)) {
  std::ifstream file(proc_ / "self" / "cgroup");
  for (std::string line; std::getline(file, line);) {  // "0::/user.slice", "4:cpu,cpuacct:/docker/1f2a"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty())
      for (const fs::path& root : {groups, groups / "unified"}) add_quota_files(quota_files_, root, group);
    else if (("," + controllers + ",").find(",cpu,") != std::string::npos)
      for (const fs::path& root : {groups / controllers, groups / "cpu"}) add_quota_files(quota_files_, root, group);
  }
  find_threads();
}

LoadMeter::~LoadMeter() {
  for (const Thread& t : threads_) close(t.schedstat);
}

void LoadMeter::find_threads() {
  std::error_code gone;
  for (fs::directory_iterator at(proc_ / "self" / "task", gone), end; !gone && at != end; at.increment(gone)) {
    constexpr size_t most_threads = 256;  // of which each takes an open file
    if (threads_.size() >= most_threads) return;
    const std::string number = at->path().filename().string();
    if (std::ranges::find(threads_, number, &Thread::number) != threads_.end()) continue;
    const int file = open((at->path() / "schedstat").c_str(), O_RDONLY | O_CLOEXEC);
    if (file >= 0) threads_.push_back({number, file, clock_of(number)});
  }
}

Interruptions LoadMeter::brief() const {
  Interruptions i;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) i.preempted = usage.ru_nivcsw;
  for (const Thread& t : threads_) i.waited_ns += waited_ns(t.schedstat);
  return i;
}

CallerTime LoadMeter::caller() const {
  const std::string self = std::to_string(gettid());
  CallerTime c{.ran_ns = thread_time_ns(CLOCK_THREAD_CPUTIME_ID)};
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) == 0) c.slept = usage.ru_nvcsw;
  if (const auto t = std::ranges::find(threads_, self, &Thread::number); t != threads_.end())
    c.waited_ns = waited_ns(t->schedstat);
  return c;
}

void LoadMeter::ran(std::vector<int64_t>& ns) const {
  ns.assign(threads_.size(), 0);
  for (size_t i = 0; i < threads_.size(); ++i) ns[i] = thread_time_ns(threads_[i].clock);
}

Interruptions LoadMeter::full() const {
  Interruptions i = brief();
  cpu_set_t ours;
  CPU_ZERO(&ours);
  sched_getaffinity(0, sizeof ours, &ours);
  const int64_t tick_ns = 1'000'000'000 / std::max(sysconf(_SC_CLK_TCK), 1L);
  std::ifstream stat(proc_ / "stat");
  for (std::string line; std::getline(stat, line) && line.starts_with("cpu");) {
    std::istringstream fields(line);
    std::string name;
    int64_t ticks[8] = {};  // user, nice, system, idle, iowait, irq, softirq, steal
    fields >> name;
    for (int64_t& t : ticks) fields >> t;
    if (fields && is_ours(name, ours)) i.stolen_ns += ticks[7] * tick_ns;
  }
  for (const fs::path& file : quota_files_) i.throttled_ns += throttled_ns(file);
  return i;
}

bool disturbed(const Interruptions& taken, double elapsed_us, bool counts_waiting) {
  const double most_us = std::max(100.0, 0.05 * elapsed_us);
  const auto more = [&](int64_t ns) { return static_cast<double>(ns) * 1e-3 > most_us; };
  const bool preempted = taken.preempted > 0 && (!counts_waiting || elapsed_us < 1000);
  return preempted || more(taken.waited_ns) || more(taken.stolen_ns) || more(taken.throttled_ns);
}

namespace {

/// Calls `each` on every thread of the team, at the same time where all of them come before `milliseconds` are over.
template <class F> bool on_all_threads(double milliseconds, const F& each) {
  struct Call {
    const F& each;
    int threads;
    double limit_us;
    Clock::time_point begin;
    std::atomic<int> here{0};
    std::atomic<bool> too_late{false};
  } call{each, threads::team_threads(), 1e3 * milliseconds, Clock::now()};
  threads::run(
      call.threads, call.threads,
      [](void* data, int64_t, int) {
        auto& c = *static_cast<Call*>(data);
        c.here.fetch_add(1);
        while (c.here.load(std::memory_order_relaxed) < c.threads && !c.too_late.load(std::memory_order_relaxed))
          if (us_since(c.begin) > c.limit_us) c.too_late = true;
        c.each();
      },
      &call);
  return !call.too_late;
}

}  // namespace

bool gather_team(double milliseconds) {
  return on_all_threads(milliseconds, [] {});
}

bool cores_are_free(LoadMeter& meter, double milliseconds) {
  gather_team(0);  // starts those that there are not yet
  meter.find_threads();
  const Interruptions before = meter.full();
  const auto begin = Clock::now();
  const bool together = on_all_threads(milliseconds, [&] {
    const auto own = Clock::now();
    while (us_since(own) < 1e3 * milliseconds) {
    }
  });
  return together && !disturbed(meter.full() - before, us_since(begin), meter.counts_waiting());
}

}  // namespace smelt::device::cpu
