#include "profile/contention.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <iterator>
#include <limits>
#include <numeric>
#include <thread>

#include "device/cpu/load.h"

namespace smelt::profile {
namespace {

using Clock = std::chrono::steady_clock;

double us_between(Clock::time_point a, Clock::time_point b) { return std::chrono::duration<double, std::micro>(b - a).count(); }

double process_us() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

int64_t ns_of(Clock::time_point t) { return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count(); }

/// Keeps the last requests, as many as have some 4,000 steps together, and at least one.
class LastRuns {
 public:
  explicit LastRuns(size_t steps) : most_(std::max<size_t>(1, 4000 / std::max<size_t>(1, steps))) {}
  void add(ServedRun run) {
    if (runs_.size() == most_) runs_.pop_front();
    runs_.push_back(std::move(run));
  }
  std::vector<ServedRun> take() { return {std::make_move_iterator(runs_.begin()), std::make_move_iterator(runs_.end())}; }

 private:
  size_t most_;
  std::deque<ServedRun> runs_;
};

double sum(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

}  // namespace

Served serve(Execution& execution, const ServeOptions& options) {
  Served s;
  std::vector<StepTime> times;
  const bool traced = !options.run && !execution.on_gpu();
  const auto run = [&] { options.run ? options.run() : traced ? execution.run_profiled(times) : execution.run(); };
  const auto add_times = [&] {
    for (size_t i = 0; i < times.size(); ++i) s.step_us[i] += static_cast<double>(times[i].end_ns - times[i].begin_ns) * 1e-3;
  };
  run();  // its threads are there then
  s.step_us.resize(times.size());
  LastRuns last(times.size());
  device::cpu::LoadMeter meter;
  meter.find_threads();
  const device::cpu::Interruptions before = meter.full();
  const double cpu = process_us();
  const auto begin = Clock::now();
  const auto left = [&] { return options.seconds * 1e6 - us_between(begin, Clock::now()); };
  auto arrival = begin;
  const auto apart =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.rate > 0 ? 1 / options.rate : 0));
  while (left() > 0 && us_between(begin, arrival) < options.seconds * 1e6) {
    std::this_thread::sleep_until(arrival);
    const auto start = Clock::now();
    if (options.rate <= 0) arrival = start;
    run();
    const auto end = Clock::now();
    s.response_us.push_back(us_between(arrival, end));
    s.service_us.push_back(us_between(start, end));
    last.add({ns_of(arrival), ns_of(start), ns_of(end), times});
    add_times();
    arrival += apart;
  }
  for (double& us : s.step_us) us /= std::max<double>(1, static_cast<double>(s.response_us.size()));
  s.seconds = us_between(begin, Clock::now()) * 1e-6;
  s.cpu_us = process_us() - cpu;
  s.last = last.take();
  s.waited_us = static_cast<double>((meter.full() - before).waited_ns) * 1e-3;
  if (!options.run && !traced) {
    execution.run_profiled(times);
    s.step_us.resize(times.size());
    add_times();
  }
  return s;
}

Served joined(std::vector<Served> parts) {
  Served all;
  for (Served& s : parts) {
    const auto before = static_cast<double>(all.response_us.size()), more = static_cast<double>(s.response_us.size());
    all.step_us.resize(std::max(all.step_us.size(), s.step_us.size()));
    for (size_t i = 0; i < s.step_us.size(); ++i)
      if (more > 0) all.step_us[i] = (all.step_us[i] * before + s.step_us[i] * more) / (before + more);
    all.response_us.insert(all.response_us.end(), s.response_us.begin(), s.response_us.end());
    all.service_us.insert(all.service_us.end(), s.service_us.begin(), s.service_us.end());
    all.seconds += s.seconds, all.cpu_us += s.cpu_us, all.waited_us += s.waited_us;
    if (!s.last.empty()) all.last = std::move(s.last);
  }
  return all;
}

double Alone::bytes() const {
  double all = 0;
  for (const StepInfo& s : steps) all += static_cast<double>(s.bytes);
  return all;
}

double Alone::busy_cores() const {
  const double running = sum(served.service_us);
  return running > 0 ? (served.cpu_us + served.waited_us) / running : 0;
}

SlowDown slow_down(const Served& alone, const Served& together) {
  SlowDown d;
  if (alone.response_us.empty() || together.response_us.empty()) return d;
  d.alone_us = mean(alone.response_us), d.together_us = mean(together.response_us);
  const double served = mean(together.service_us), served_alone = mean(alone.service_us);
  d.queueing_us = std::max(0.0, (d.together_us - served) - (d.alone_us - served_alone));
  const double longer = std::max(0.0, served - served_alone);
  // As many threads wait at a time as run at a time; what one of them waits the run is longer by, shared among them.
  const double running = sum(together.service_us), threads = running > 0 ? (together.cpu_us + together.waited_us) / running : 0;
  const auto runs = static_cast<double>(together.service_us.size());
  const double alone_waited = alone.waited_us / static_cast<double>(alone.service_us.size());
  const double waited = std::max(0.0, together.waited_us / runs - alone_waited);
  d.cores_us = std::min(longer, threads > 1 ? waited / threads : waited);
  d.memory_us = longer - d.cores_us;
  return d;
}

std::vector<StepSlowDown> step_slow_downs(const Served& alone, const Served& together) {
  const SlowDown whole = slow_down(alone, together);
  const double all = sum(alone.step_us);
  std::vector<StepSlowDown> steps;
  for (size_t i = 0; i < std::min(alone.step_us.size(), together.step_us.size()); ++i) {
    StepSlowDown s{alone.step_us[i], together.step_us[i]};
    const double longer = std::max(0.0, s.together_us - s.alone_us);
    s.cores_us = all > 0 ? std::min(longer, whole.cores_us * s.alone_us / all) : 0;
    s.memory_us = longer - s.cores_us;
    steps.push_back(s);
  }
  return steps;
}

std::pair<int64_t, int64_t> common_window(const std::vector<Served>& together, int64_t most_ns) {
  int64_t begin = 0, end = std::numeric_limits<int64_t>::max();
  for (const Served& s : together) {
    if (s.last.empty()) return {0, 0};
    begin = std::max(begin, s.last.front().arrival_ns), end = std::min(end, s.last.back().end_ns);
  }
  if (together.empty() || end <= begin) return {0, 0};
  return {std::max(begin, end - most_ns), end};
}

namespace {

/// How much longer than beside busy cores a model takes whose caches others fill. `turns`: the part of its time in which it takes
/// turns with them.
double beside_readers(const Alone& m, double turns, double moved_by_others) {
  if (m.beside_busy <= 0 || m.beside_reads <= 0 || m.read_bytes_per_s <= 0) return 1;
  const double fill = std::min(1.0, moved_by_others / m.read_bytes_per_s);
  return 1 + (m.beside_reads / m.beside_busy - 1) * fill * std::min(1.0, turns);
}

}  // namespace

std::vector<double> predicted_slow_downs(const std::vector<Alone>& models, int cores, double bytes_per_s, double rate) {
  const size_t n = models.size();
  std::vector<double> service(n), wants(n), slow(n, 1);
  for (size_t i = 0; i < n; ++i) {
    service[i] = models[i].served.service_us.empty() ? 0 : mean(models[i].served.service_us);
    wants[i] = models[i].busy_cores();
  }
  // How much each is busy depends on how slow it is: repeated until that settles.
  for (int round = 0; round < 50; ++round) {
    for (size_t i = 0; i < n; ++i) {
      // Of the time in which it runs, the parts in which each set of the others is busy too, as if by chance.
      double progress = 0;
      for (size_t set = 0; set < (size_t{1} << n); ++set) {
        if (!(set >> i & 1)) continue;
        double part = 1, wanted = 0, moved = 0, moved_by_others = 0;
        for (size_t k = 0; k < n; ++k) {
          const bool busy = set >> k & 1;
          const double duty = rate > 0 ? std::min(1.0, rate * service[k] * slow[k] * 1e-6) : 1.0;
          if (k != i) part *= busy ? duty : 1 - duty;
          if (!busy) continue;
          wanted += wants[k];
          const double moves = service[k] > 0 ? models[k].bytes() / (service[k] * 1e-6) : 0;
          moved += moves;
          if (k != i) moved_by_others += moves;
        }
        // Beside busy cores, as many are wanted too much as the model itself wants.
        const double missing = std::max(0.0, wanted - cores), own = models[i].beside_busy;
        const double by_cores = own > 1 && wants[i] > 0 ? 1 + (own - 1) * missing / wants[i] : wanted / cores;
        const double by_caches = beside_readers(models[i], wants[i] > 0 ? missing / wants[i] : 0, moved_by_others);
        const double slower = std::max({1.0, by_cores * by_caches, bytes_per_s > 0 ? moved / bytes_per_s : 0.0});
        progress += part / slower;
      }
      slow[i] = progress > 0 ? 0.5 * slow[i] + 0.5 / progress : slow[i];
    }
  }
  return slow;
}

}  // namespace smelt::profile
