#include "tune/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/quantile.h"

namespace smelt::tune {
namespace {

using Clock = std::chrono::steady_clock;

/// Mean microseconds of `repeat` runs.
double time_of(const std::function<void()>& run, int repeat) {
  const auto begin = Clock::now();
  for (int i = 0; i < repeat; ++i) run();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / repeat;
}

}  // namespace

Timing summarize(std::string tactic, std::string config, std::vector<double> samples) {
  if (samples.empty()) fail("tactic {} has no samples to summarise", tactic);
  std::ranges::sort(samples);
  Timing t{std::move(tactic), std::move(config)};
  t.min = samples.front();
  t.q1 = quantile(samples, 0.25);
  t.median = quantile(samples, 0.5);
  t.q3 = quantile(samples, 0.75);
  t.p90 = quantile(samples, 0.9);
  t.samples = static_cast<int>(samples.size());
  return t;
}

size_t winner(std::span<const Timing> timings) {
  size_t best = timings.size();
  for (size_t i = 0; i < timings.size(); ++i) {
    if (timings[i].runs() && (best == timings.size() || timings[i].median < timings[best].median)) best = i;
  }
  if (best == timings.size()) fail("no timings to choose among");
  for (size_t i = 0; i < timings.size(); ++i) {
    if (timings[i].runs() && timings[i].q1 <= timings[best].q3) return i;
  }
  return best;
}

std::vector<std::vector<double>> measure(std::span<const std::function<void()>> runs, const MeasureOptions& options) {
  constexpr double min_sample_us = 20;
  std::vector<std::vector<double>> samples(runs.size());
  std::vector<double> first(runs.size());
  double best = INFINITY, round = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const double cold = time_of(runs[i], 1);
    // The first run may have made code and threads, so it is repeated, unless it alone took all of the time.
    first[i] = cold > options.budget_us && cold > options.hopeless * best ? cold : time_of(runs[i], 1);
    best = std::min(best, first[i]);
  }
  std::vector<int> repeat(runs.size());
  std::vector<bool> dropped(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    dropped[i] = first[i] > options.hopeless * best;
    repeat[i] = static_cast<int>(std::clamp(std::ceil(min_sample_us / std::max(first[i], 0.01)), 1.0, 200.0));
    if (dropped[i])
      samples[i] = {first[i]};
    else
      round += first[i] * repeat[i];
  }
  const int rounds =
      static_cast<int>(std::clamp(options.budget_us / std::max(round, 1.0), 3.0, static_cast<double>(options.repetitions)));
  for (int r = 0; r < rounds; ++r) {
    for (size_t i = 0; i < runs.size(); ++i) {
      if (!dropped[i]) samples[i].push_back(time_of(runs[i], repeat[i]));
    }
  }
  return samples;
}

}  // namespace smelt::tune
