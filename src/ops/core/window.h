// A window sliding over a grid: the geometry that convolution, transposed convolution, pooling and Col2Im share.
#pragma once

#include <algorithm>

#include "base/number.h"
#include "ops/core/operator.h"

namespace smelt::ops {

/// One entry for each spatial axis.
struct Window {
  Shape kernel, stride, dilation, pad_begin, pad_end;
  size_t rank() const { return kernel.size(); }
  /// Grid points from a window's first to its last tap.
  int64_t extent(size_t d) const { return (kernel[d] - 1) * dilation[d] + 1; }
};

/// The window of a Conv- or Pool-like node over a grid of extents `spatial`: attributes strides, dilations, pads and
/// auto_pad (SAME_* resolved for these extents). Throws Error on attributes of the wrong length or sign.
Window window_of(const Node& node, const Shape& kernel, const Shape& spatial);
/// Attribute kernel_shape; throws unless it has one positive entry for each of `rank` spatial axes.
Shape kernel_shape(const Node& node, size_t rank);
/// How many places the window has on each axis. With `ceil` a last, partial place counts unless it would start in the padding
/// behind the grid. Throws when the window does not fit.
Shape window_places(const Window& w, const Shape& spatial, bool ceil = false);

/// The extents behind the batch and channel axes.
inline Shape spatial_of(const Shape& s) { return s.size() < 2 ? Shape{} : Shape(s.begin() + 2, s.end()); }
/// [n, c] in front of spatial extents.
Shape with_spatial(int64_t n, int64_t c, const Shape& spatial);

/// Advances a row-major index; false after the last. An index of rank 0 has one value.
inline bool advance(Shape& index, const Shape& extents) {
  for (size_t d = index.size(); d-- > 0;) {
    if (++index[d] < extents[d]) return true;
    index[d] = 0;
  }
  return false;
}

/// Those of `count` points shift + i * stride that lie in [0, extent): i from begin to end - 1.
struct PointsInside {
  int64_t begin, end;
};
inline PointsInside points_inside(int64_t shift, int64_t stride, int64_t extent, int64_t count) {
  const int64_t begin = shift >= 0 ? 0 : std::min(count, divide_up(-shift, stride));
  const int64_t end = shift >= extent ? begin : std::min(count, (extent - 1 - shift) / stride + 1);
  return {begin, std::max(begin, end)};
}

/// Visits, for one tap of the window, all pairs (place, grid point) that lie inside the grid, as runs along the last
/// axis: f(place, point, count) stands for the pairs (place + i, point + i * w.stride.back()), i < count.
template <class F> void for_runs(const Window& w, const Shape& places, const Shape& grid, const Shape& tap, F&& f) {
  const size_t last = w.rank() - 1;
  Shape outer(places.begin(), places.end() - 1), index(last, 0);
  if (elements(places) == 0 || elements(grid) == 0) return;
  // place p lies over grid point p * stride + shift
  const int64_t shift = tap[last] * w.dilation[last] - w.pad_begin[last], stride = w.stride[last];
  const auto [first, end] = points_inside(shift, stride, grid[last], places[last]);
  if (first >= end) return;
  do {
    int64_t place = 0, point = 0;
    bool inside = true;
    for (size_t d = 0; d < last && inside; ++d) {
      const int64_t at = index[d] * w.stride[d] + tap[d] * w.dilation[d] - w.pad_begin[d];
      inside = at >= 0 && at < grid[d];
      place = place * places[d] + index[d];
      point = point * grid[d] + at;
    }
    if (inside) f(place * places[last] + first, point * grid[last] + first * stride + shift, end - first);
  } while (advance(index, outer));
}

}  // namespace smelt::ops
