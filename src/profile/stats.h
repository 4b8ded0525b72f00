// Statistics of timings: median, percentiles, and the interval of a ratio.
#pragma once

#include <span>
#include <vector>

namespace smelt::profile {

/// Linear interpolation between closest ranks; q in [0, 1]. NaN for no samples.
double percentile(std::span<const double> samples, double q);
double median(std::span<const double> samples);
double mean(std::span<const double> samples);

struct Summary {
  double mean = 0, median = 0, p90 = 0, p99 = 0, min = 0, max = 0;
  double iqr = 0;  // p75 - p25
  int count = 0;
};
Summary summarize(std::span<const double> samples);

/// A ratio with its 95% bootstrap percentile interval (Efron, 1979).
struct Ratio {
  /// Fewer pairs prove nothing at 95%, however they fall: five that all favour one side do so by chance once in 16 (sign test).
  static constexpr int fewest_pairs = 6;
  double value = 1, low = 1, high = 1;
  int pairs = 0;
  bool enough() const { return pairs >= fewest_pairs; }
  /// True if the whole interval lies on one side of 1 and there are enough pairs.
  bool faster() const { return enough() && high < 1; }
  bool slower() const { return enough() && low > 1; }
};

/// median(after) / median(before), below 1 when `after` is faster. The samples are paired (taken in turn: A B A B …) and are
/// resampled in pairs, in blocks of neighbours so that slow drifts of a shared machine widen the interval instead of
/// hiding in it (moving-block bootstrap, Künsch 1989). Same samples, same interval: the generator is seeded with a constant.
Ratio ratio_interval(std::span<const double> before, std::span<const double> after, int resamples = 2000);
/// The same for rounds, which are resampled whole (cluster bootstrap). It draws one round fewer than there are, since the spread
/// of few rounds would come out too small otherwise (Rao and Wu, 1988). `ends`: the number of pairs up to the end of each round.
Ratio ratio_interval(std::span<const double> before, std::span<const double> after, std::span<const size_t> ends,
                     int resamples = 2000);

}  // namespace smelt::profile
