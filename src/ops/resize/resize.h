// Resize's geometry, which faster tactics use too.
#pragma once

#include <string>
#include <vector>

#include "ops/core/operator.h"

namespace smelt::ops {

struct ResizeAxis {
  int64_t in = 0, out = 0;
  double scale = 1;    // out / in before rounding
  bool exact = false;  // scale is out / in by definition (given as sizes)
  double roi_begin = 0, roi_end = 1;
};

/// One entry for each axis of x; `scales` and `sizes` are null where left out, `roi` too (or not needed). Throws Error when they
/// do not fit.
std::vector<ResizeAxis> resize_axes(const Node& node, const Shape& x, const Tensor* roi, const Tensor* scales,
                                    const Tensor* sizes);

/// ONNX's coordinate_transformation_mode of a Resize or an Upsample.
std::string resize_transformation(const Node& node);
/// Place in the input, in pixels, of an output place (ONNX's coordinate_transformation_mode).
double resize_coordinate(const ResizeAxis& axis, const std::string& mode, int64_t place);
/// The pixel that nearest interpolation takes for a coordinate; may lie outside.
int64_t nearest_place(double coordinate, const std::string& nearest_mode);

struct ResizeTap {
  int64_t place = 0;  // in the input, inside it
  double weight = 0;
};
/// What linear or cubic interpolation (attributes mode, antialias, exclude_outside, cubic_coeff_a) adds up for a coordinate.
std::vector<ResizeTap> resize_taps(const Node& node, const ResizeAxis& axis, double coordinate);

void infer_resize(InferContext& c);
void run_resize(ComputeContext& c);

}  // namespace smelt::ops
