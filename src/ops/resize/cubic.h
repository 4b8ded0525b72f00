// Interpolation kernels.
#pragma once

#include <cmath>

namespace smelt::ops {

/// Keys' cubic convolution kernel, equation (4) of R. Keys, "Cubic convolution interpolation for digital image processing", 1981.
inline double cubic_kernel(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((x - 5) * x + 8) * x * a - 4 * a;
  return 0;
}

/// The triangle of linear interpolation.
inline double linear_kernel(double x) {
  x = std::abs(x);
  return x < 1 ? 1 - x : 0;
}

}  // namespace smelt::ops
