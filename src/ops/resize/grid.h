// GridSample's geometry, which faster tactics use too.
#pragma once

#include <cstdint>

#include <optional>

#include "ops/core/operator.h"
#include "ops/resize/simd/grid.h"

namespace smelt::ops {

/// Up to four pixels of an axis and their weights.
struct GridTaps {
  int64_t place[4];
  double weight[4];
  int count = 0;
  void add(int64_t p, double w) {
    if (p < 0 || w == 0) return;
    place[count] = p;
    weight[count++] = w;
  }
};

/// What a GridSample's attributes say; throws Error for unknown ones.
class GridSampling {
 public:
  explicit GridSampling(const Node& node);
  /// The taps along an axis of `extent` pixels for a normalised coordinate.
  GridTaps taps(int64_t extent, double coordinate) const;
  /// The same as loops over places see it, of an image of these extents; nothing for cubic taps, or images too large for them.
  std::optional<GridGeometry> geometry(const Shape& spatial) const;
  /// The most taps that an axis can have.
  int most() const { return interpolation_ == Interpolation::cubic ? 4 : interpolation_ == Interpolation::linear ? 2 : 1; }

 private:
  using Padding = GridPadding;
  enum class Interpolation : uint8_t { nearest, linear, cubic };
  struct Axis;
  Padding padding_ = Padding::zeros;
  Interpolation interpolation_ = Interpolation::linear;
  bool align_;
};

}  // namespace smelt::ops
