// RoiAlign's geometry, shared by its reference and its faster tactic.
#pragma once

#include <vector>

#include "ops/core/operator.h"

namespace smelt::ops {

struct RoiAlign {
  int64_t rois = 0, channels = 0, height = 0, width = 0, out_height = 1, out_width = 1, sampling = 0, batch = 0;
  double scale = 1;
  bool half_pixel = true, maximum = false;
};

/// Checks X [N, C, H, W], rois [R, 4] and batch_indices [R]; throws Error with the expected and the found.
RoiAlign roi_align_of(const Node& node, const Shape& x, const Shape& rois, const Shape& indices);

/// One sample point: four pixels of a plane and their weights; all weights are 0 outside the map.
struct RoiSample {
  int64_t place[4] = {0, 0, 0, 0};
  double weight[4] = {0, 0, 0, 0};
};

/// The sample points of one region [x1, y1, x2, y2], bin by bin in row-major order; `per_bin` gets their number in each bin.
std::vector<RoiSample> roi_samples(const RoiAlign& p, const double region[4], int64_t& per_bin);

}  // namespace smelt::ops
