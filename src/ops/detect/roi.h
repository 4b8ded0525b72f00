// RoiAlign's geometry, shared by its reference and its faster tactic.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "ops/core/operator.h"

namespace smelt::ops {

constexpr int64_t most_roi_samples = 1 << 16;  // along one side of a bin; a region that takes more is not a region of the map

struct RoiAlign {
  int64_t rois = 0, channels = 0, height = 0, width = 0, out_height = 1, out_width = 1, sampling = 0, batch = 0;
  double scale = 1;
  bool half_pixel = true, maximum = false;
};

/// Checks X [N, C, H, W], rois [R, 4] and batch_indices [R]; throws Error with the expected and the found.
RoiAlign roi_align_of(const Node& node, const Shape& x, const Shape& rois, const Shape& indices);

/// What a bin reads of the map along one axis: a pixel, and what its value counts.
struct RoiEntry {
  int64_t pixel;
  double weight;
};

/// Which of them lie in a list of all bins' entries.
struct RoiBin {
  size_t begin, end;
  bool beyond;  // some of its samples lie outside of the map, where they count as zeros
};

/// A region along one axis, bin by bin. A sample point is two entries; where more samples lie on a pixel than a bin could tell apart, the
/// entries are those of the pixels: the sum of the samples' weights, or for a maximum the largest and the smallest of them. So there are
/// never many more than pixels, whatever is asked for.
struct RoiAxis {
  int64_t grid = 0;  // samples of a bin, those outside of the map too
  std::vector<RoiEntry> entries;
  std::vector<RoiBin> bins;
  std::span<const RoiEntry> of(int64_t bin) const {
    const RoiBin& b = bins[static_cast<size_t>(bin)];
    return std::span(entries).subspan(b.begin, b.end - b.begin);
  }
};

/// Both axes of a region [x1, y1, x2, y2]. The mean over a bin is the sum of weight · weight · pixel over all pairs of entries divided by
/// `grid` · `grid`; the maximum is the largest of those products, with a 0 where samples lie outside of the map.
struct RoiPlaces {
  RoiAxis rows, columns;
  double samples() const { return std::max(static_cast<double>(rows.grid) * static_cast<double>(columns.grid), 1.0); }
  bool beyond(int64_t row, int64_t column) const {
    return rows.bins[static_cast<size_t>(row)].beyond || columns.bins[static_cast<size_t>(column)].beyond;
  }
};
RoiPlaces roi_places(const RoiAlign& p, const double region[4]);

}  // namespace smelt::ops
