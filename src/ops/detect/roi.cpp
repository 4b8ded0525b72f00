// RoiAlign (He et al., arXiv:1703.06870) and MaxRoiPool (Girshick, arXiv:1504.08083).
#include "ops/detect/roi.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/detect/detect.h"

namespace smelt::ops {

RoiAlign roi_align_of(const Node& node, const Shape& x, const Shape& rois, const Shape& indices) {
  if (x.size() != 4) fail("X has shape {}, expected [N, C, H, W]", to_string(x));
  if (rois.size() != 2 || rois[1] != 4) fail("rois has shape {}, expected [R, 4]", to_string(rois));
  if (indices != Shape{rois[0]}) fail("batch_indices has shape {}, expected [{}]", to_string(indices), rois[0]);
  RoiAlign p{rois[0],
             x[1],
             x[2],
             x[3],
             node.get_int("output_height", 1),
             node.get_int("output_width", 1),
             node.get_int("sampling_ratio", 0),
             x[0]};
  if (p.out_height < 1 || p.out_width < 1 || p.sampling < 0)
    fail("output_height, output_width and sampling_ratio are {}, {} and {}", p.out_height, p.out_width, p.sampling);
  p.scale = node.get_float("spatial_scale", 1);
  if (p.sampling > most_roi_samples) fail("sampling_ratio is {}, expected at most {}", p.sampling, most_roi_samples);
  if (p.rois > 0 && p.channels > 0 && (p.height == 0 || p.width == 0))
    fail("X has shape {}, which has no pixels for {} regions", to_string(x), p.rois);
  checked_product(p.out_height, p.out_width);
  const std::string mode = node.get_string("mode", "avg"),
                    transformation = node.get_string("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max") fail("mode is '{}', expected avg or max", mode);
  if (transformation != "half_pixel" && transformation != "output_half_pixel") {
    fail("coordinate_transformation_mode is '{}', expected half_pixel or output_half_pixel", transformation);
  }
  p.maximum = mode == "max";
  p.half_pixel = transformation == "half_pixel";
  return p;
}

void infer_roi_align(InferContext& c) {
  const RoiAlign p = roi_align_of(c.node, c.shape(0), c.shape(1), c.shape(2));
  c.set(0, type_of(c, 0), {p.rois, p.channels, p.out_height, p.out_width});
}

void run_roi_align(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const RoiAlign p = roi_align_of(c.node, c.in(0).shape(), c.in(1).shape(), c.in(2).shape());
    const std::vector<int64_t> item = c.in(2).to_ints();
    const int64_t plane = p.height * p.width;
    T* y = c.outputs[0].data<T>();
    for (int64_t r = 0; r < p.rois; ++r) {
      const T* corner = c.in(1).data<T>() + r * 4;
      const double region[4] = {static_cast<double>(corner[0]), static_cast<double>(corner[1]), static_cast<double>(corner[2]),
                                static_cast<double>(corner[3])};
      const RoiPlaces places = roi_places(p, region);
      const int64_t n = item[static_cast<size_t>(r)];
      if (n < 0 || n >= p.batch) fail("batch_indices has {}, expected 0 to {}", n, p.batch - 1);
      for (int64_t ch = 0; ch < p.channels; ++ch) {
        const T* map = c.in(0).data<T>() + (n * p.channels + ch) * plane;
        for (int64_t row = 0; row < p.out_height; ++row)
          for (int64_t column = 0; column < p.out_width; ++column) {
            double sum = 0, largest = 0;
            bool any = places.beyond(row, column);
            for (const RoiEntry& down : places.rows.of(row))
              for (const RoiEntry& across : places.columns.of(column)) {
                const double v = down.weight * across.weight * static_cast<double>(map[down.pixel * p.width + across.pixel]);
                sum += v;
                // ONNX's max takes the largest weighted neighbour, not the largest interpolated value.
                largest = any ? std::max(largest, v) : v;
                any = true;
              }
            *y++ = static_cast<T>(p.maximum ? largest : sum / places.samples());
          }
      }
    }
  });
}

// --- MaxRoiPool: rois [R, 5] of (item, x1, y1, x2, y2), rounded to whole pixels ---

void infer_max_roi_pool(InferContext& c) {
  const Shape &x = c.shape(0), &rois = c.shape(1), pooled = c.node.get_ints("pooled_shape");
  if (x.size() != 4) fail("X has shape {}, expected [N, C, H, W]", to_string(x));
  if (rois.size() != 2 || rois[1] != 5) fail("rois has shape {}, expected [R, 5]", to_string(rois));
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1)
    fail("pooled_shape is {}, expected two positive extents", to_string(pooled));
  c.set(0, type_of(c, 0), {rois[0], x[1], pooled[0], pooled[1]});
}

void run_max_roi_pool(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Shape &shape = c.in(0).shape(), &out = c.outputs[0].shape();
    const double scale = c.node.get_float("spatial_scale", 1);
    const int64_t height = shape[2], width = shape[3];
    T* y = c.outputs[0].data<T>();
    for (int64_t r = 0; r < out[0]; ++r) {
      const T* roi = c.in(1).data<T>() + r * 5;
      const int64_t item = truncated(static_cast<double>(roi[0]));
      if (!(roi[0] >= 0) || item >= shape[0])
        fail("roi {} is of item {}, expected 0 to {}", r, static_cast<double>(roi[0]), shape[0] - 1);
      const auto pixel = [scale](T v) { return std::round(static_cast<double>(v) * scale); };
      const double x0 = pixel(roi[1]), y0 = pixel(roi[2]);
      const double bin_w = std::max(pixel(roi[3]) - x0 + 1, 1.0) / static_cast<double>(out[3]);
      const double bin_h = std::max(pixel(roi[4]) - y0 + 1, 1.0) / static_cast<double>(out[2]);
      const auto inside = [](double v, int64_t extent) { return std::clamp<int64_t>(truncated(v), 0, extent); };
      for (int64_t ch = 0; ch < out[1]; ++ch) {
        const T* map = c.in(0).data<T>() + (item * shape[1] + ch) * height * width;
        for (int64_t bin = 0; bin < out[2] * out[3]; ++bin) {
          const int64_t bin_row = bin / out[3], bin_column = bin % out[3];
          const double row = static_cast<double>(bin_row), column = static_cast<double>(bin_column);
          const int64_t top = inside(std::floor(row * bin_h) + y0, height),
                        bottom = inside(std::ceil((row + 1) * bin_h) + y0, height);
          const int64_t left = inside(std::floor(column * bin_w) + x0, width),
                        right = inside(std::ceil((column + 1) * bin_w) + x0, width);
          const bool any = top < bottom && left < right;
          T best = any ? -std::numeric_limits<T>::infinity() : T{};  // an empty bin is 0
          for (int64_t i = top; i < bottom; ++i)
            for (int64_t j = left; j < right; ++j)
              if (const T v = map[i * width + j]; v > best) best = v;  // a NaN is none
          *y++ = best;
        }
      }
    }
  });
}

}  // namespace smelt::ops
