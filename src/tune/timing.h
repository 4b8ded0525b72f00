// What is known of a candidate's speed, and who wins.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace smelt::tune {

/// The distribution of a candidate's time on one problem, in microseconds a run. Without samples, a candidate that was tried and
/// could not be prepared or run.
struct Timing {
  std::string tactic, config;
  double min = 0, q1 = 0, median = 0, q3 = 0, p90 = 0;
  int samples = 0;
  bool runs() const { return samples > 0; }
  bool operator==(const Timing&) const = default;
};

/// From samples in microseconds, at least one. Quantiles interpolate linearly between closest ranks.
Timing summarize(std::string tactic, std::string config, std::vector<double> samples);

/// The winner among timings in the candidates' fixed order: the first whose interquartile range meets that of the one with
/// the lowest median, so that noise does not decide. Throws where none runs.
size_t winner(std::span<const Timing> timings);

struct MeasureOptions {
  int repetitions = 15;       // samples a candidate, at most
  double budget_us = 50'000;  // time all candidates of a problem may take together, warm-up apart
  double hopeless = 8;        // a candidate whose first warm run takes this many times the best one's is dropped
};

/// Times the functions in turn (A B C A B C …) after a warm-up run each; the samples of each, in microseconds. A sample of a
/// run shorter than 20 µs is the mean of several.
std::vector<std::vector<double>> measure(std::span<const std::function<void()>> runs, const MeasureOptions& options);

}  // namespace smelt::tune
