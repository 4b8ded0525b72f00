#include "profile/stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/quantile.h"

namespace smelt::profile {
namespace {

double median_in_place(std::vector<double>& v) {
  const size_t mid = v.size() / 2;
  std::nth_element(v.begin(), v.begin() + static_cast<long>(mid), v.end());
  if (v.size() % 2) return v[mid];
  return 0.5 * (v[mid] + *std::max_element(v.begin(), v.begin() + static_cast<long>(mid)));
}

}  // namespace

double percentile(std::span<const double> samples, double q) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return quantile(sorted, q);
}

double median(std::span<const double> samples) { return percentile(samples, 0.5); }

double mean(std::span<const double> samples) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

Summary summarize(std::span<const double> samples) {
  if (samples.empty()) return {};
  std::vector<double> s(samples.begin(), samples.end());
  std::sort(s.begin(), s.end());
  return {.mean = mean(s),
          .median = quantile(s, 0.5),
          .p90 = quantile(s, 0.9),
          .p99 = quantile(s, 0.99),
          .min = s.front(),
          .max = s.back(),
          .iqr = quantile(s, 0.75) - quantile(s, 0.25),
          .count = static_cast<int>(s.size())};
}

Ratio ratio_interval(std::span<const double> before, std::span<const double> after, int resamples) {
  const size_t n = std::min(before.size(), after.size());
  if (n == 0) return {};
  const double value = median(after.first(n)) / median(before.first(n));
  const size_t block = std::max<size_t>(1, static_cast<size_t>(std::lround(std::cbrt(static_cast<double>(n)))));
  std::mt19937_64 random(20260101);
  std::uniform_int_distribution<size_t> start(0, n - block);
  std::vector<double> ratios, a(n), b(n);
  ratios.reserve(static_cast<size_t>(resamples));
  for (int r = 0; r < resamples; ++r) {
    for (size_t i = 0; i < n;) {
      const size_t from = start(random);
      for (size_t k = 0; k < block && i < n; ++k, ++i) {
        b[i] = before[from + k];
        a[i] = after[from + k];
      }
    }
    ratios.push_back(median_in_place(a) / median_in_place(b));
  }
  return {value, percentile(ratios, 0.025), percentile(ratios, 0.975), static_cast<int>(n)};
}

Ratio ratio_interval(std::span<const double> before, std::span<const double> after, std::span<const size_t> ends, int resamples) {
  if (ends.size() < 2) return ratio_interval(before, after, resamples);
  const double value = median(after) / median(before);
  std::mt19937_64 random(20260101);
  std::uniform_int_distribution<size_t> any(0, ends.size() - 1);
  std::vector<double> ratios, a, b;
  for (int r = 0; r < resamples; ++r) {
    a.clear(), b.clear();
    for (size_t drawn = 0; drawn + 1 < ends.size(); ++drawn) {
      const size_t round = any(random), from = round ? ends[round - 1] : 0, count = ends[round] - from;
      a.insert(a.end(), after.begin() + static_cast<long>(from), after.begin() + static_cast<long>(from + count));
      b.insert(b.end(), before.begin() + static_cast<long>(from), before.begin() + static_cast<long>(from + count));
    }
    ratios.push_back(median_in_place(a) / median_in_place(b));
  }
  return {value, percentile(ratios, 0.025), percentile(ratios, 0.975), static_cast<int>(before.size())};
}

}  // namespace smelt::profile
