// What windows and mel filters are made of.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "ops/core/operator.h"

namespace smelt::ops {

/// a0 - a1 cos(2 pi k / n) + a2 cos(4 pi k / n)
struct CosineWindow {
  double a0, a1, a2;
};
CosineWindow cosine_window(const Node& node);

/// Triangles over the rows of a spectrum.
struct MelFilter {
  int64_t rows, bins;
  std::vector<int64_t> edges;  // of the bands, equally spaced in mel, as rows; two more than bins

  /// Calls f(row, bin, value) for the weights that are not 0.
  template <class F> void for_each_weight(F&& f) const {
    const auto between = [](int64_t a, int64_t b) { return static_cast<double>(b) - static_cast<double>(a); };  // may not fit
    for (int64_t k = 0; k < bins; ++k) {
      const int64_t left = edges[static_cast<size_t>(k)], peak = edges[static_cast<size_t>(k + 1)],
                    right = edges[static_cast<size_t>(k + 2)];
      if (peak == left && peak >= 0 && peak < rows) f(peak, k, 1.0);
      for (int64_t row = std::max<int64_t>(0, left); row < rows && row <= peak && peak > left; ++row)
        f(row, k, between(left, row) / between(left, peak));
      for (int64_t row = std::max<int64_t>(0, peak); row < std::min(right, rows); ++row)
        f(row, k, between(row, right) / between(peak, right));
    }
  }
};

/// Of MelWeightMatrix' five inputs. Throws Error where they are none.
MelFilter mel_filter(std::span<const Tensor> in);

}  // namespace smelt::ops
