#include "profile/counted_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/error.h"

namespace smelt::profile {
namespace {

constexpr double line_bytes = 64;      // of a cache
constexpr double near_roof = 1.0 / 3;  // of memory's bandwidth, as judge() has it
constexpr double busy_ipc = 2;         // instructions a cycle, from which on a core is busy
constexpr double least_cycles = 1e6;   // below that a step was met by a few samples only
constexpr int runs = 10;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void share_out(const std::vector<std::vector<device::cpu::CounterSample>>& threads, std::span<const StepTime> times,
               int64_t begin_ns, std::vector<CountedStep>& steps) {
  for (const auto& samples : threads)
    for (size_t i = 1; i < samples.size(); ++i) {
      const int64_t at = samples[i].at_ns - begin_ns;
      const auto step = std::ranges::find_if(times, [&](const StepTime& t) { return t.begin_ns <= at && at < t.end_ns; });
      if (step == times.end()) continue;
      CountedStep& c = steps[static_cast<size_t>(step - times.begin())];
      const auto more = [&](size_t k) { return static_cast<double>(samples[i].counts[k] - samples[i - 1].counts[k]); };
      c.cycles += more(0), c.instructions += more(1), c.misses += more(2);
    }
}

void refine(StepRow& row, const CountedStep& c, double us, const Roof& roof) {
  if (c.cycles < least_cycles || us <= 0) return;
  row.instructions_per_cycle = c.instructions / c.cycles;
  row.missed_bytes_per_s = c.misses * line_bytes / (us * 1e-6);
  const double memory = roof.bytes_per_s > 0 ? row.missed_bytes_per_s / roof.bytes_per_s : 0;
  std::string said = fmt::format("; counted: {:.1f} instructions a cycle, {:.2g} GB/s of misses", row.instructions_per_cycle,
                                 row.missed_bytes_per_s * 1e-9);
  if (row.limiter == Limiter::latency && memory >= near_roof) {
    row.limiter = Limiter::memory;
    said += ": it moves more than it must";
  } else if (row.limiter == Limiter::latency && row.instructions_per_cycle >= busy_ipc) {
    row.limiter = Limiter::compute;
    said += ": its kernel computes more than it must";
  }
  if (row.limiter != Limiter::unknown) row.because += said;
}

std::string count_steps(Execution& execution, std::vector<StepRow>& steps, const Roof& roof) {
  if (std::string missing = device::cpu::counters_missing(); !missing.empty()) return missing;
  std::optional<device::cpu::CounterSampler> sampler;
  try {
    sampler.emplace();
  } catch (const Error& e) {
    return e.what();
  }
  std::vector<CountedStep> counted(steps.size());
  std::vector<double> us(steps.size());
  std::vector<StepTime> times;
  for (int i = 0; i < runs; ++i) {
    sampler->start();
    const int64_t begin = now_ns();
    execution.run_profiled(times);
    share_out(sampler->stop(), times, begin, counted);
    for (size_t s = 0; s < std::min(us.size(), times.size()); ++s)
      us[s] += static_cast<double>(times[s].end_ns - times[s].begin_ns) * 1e-3;
  }
  for (size_t s = 0; s < steps.size(); ++s) refine(steps[s], counted[s], us[s], roof);
  return "";
}

}  // namespace smelt::profile
