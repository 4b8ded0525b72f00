// Quantiles of samples, as every table of timings gives them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

namespace smelt {

/// Linear interpolation between closest ranks; q in [0, 1], samples in ascending order. NaN for no samples.
inline double quantile(std::span<const double> sorted, double q) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace smelt
