// The timings of a problem's candidates, and which candidate wins.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace smelt::tune {

/// The distribution of a candidate's time on one problem, in microseconds of a run. It has no samples if the candidate was tried
/// and could not be prepared or run.
struct Timing {
  std::string tactic, config;
  double min = 0, q1 = 0, median = 0, q3 = 0, p90 = 0;
  int samples = 0;
  bool runs() const { return samples > 0; }
  bool operator==(const Timing&) const = default;
};

/// The distribution of samples in microseconds, at least one. Quantiles interpolate linearly between closest ranks.
Timing summarize(std::string tactic, std::string config, std::vector<double> samples);

/// The winner among timings in the candidates' fixed order: the first timing whose interquartile range overlaps that of the
/// timing with the lowest median, so that noise does not decide. Throws if no candidate runs.
size_t winner(std::span<const Timing> timings);

struct MeasureOptions {
  int repetitions = 15;       // samples of a candidate, at most
  double budget_us = 50'000;  // time that all candidates of a problem may take together, without warm-up
  double hopeless = 8;        // drops a candidate whose first warm run takes this many times the best candidate's
};

/// Times the functions in turn (A B C A B C …) after a warm-up run of each. Returns the samples of each in microseconds. A
/// sample of a run shorter than 20 µs is the mean of several runs.
std::vector<std::vector<double>> measure(std::span<const std::function<void()>> runs, const MeasureOptions& options);

}  // namespace smelt::tune
