// What normalisations measure.
#pragma once

#include <cstdint>

namespace smelt::ops {

/// Mean and population variance; for the RMS forms mean 0 and the mean square.
struct Moments {
  double mean = 0, variance = 0;
};

template <class T> Moments moments(const T* x, int64_t n) {
  Moments m;
  for (int64_t i = 0; i < n; ++i) m.mean += static_cast<double>(x[i]);
  m.mean /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) m.variance += (static_cast<double>(x[i]) - m.mean) * (static_cast<double>(x[i]) - m.mean);
  m.variance /= static_cast<double>(n);
  return m;
}

template <class T> Moments mean_square(const T* x, int64_t n) {
  Moments m;
  for (int64_t i = 0; i < n; ++i) m.variance += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  m.variance /= static_cast<double>(n);
  return m;
}

}  // namespace smelt::ops
