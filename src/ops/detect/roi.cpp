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

namespace {

constexpr int64_t most_samples = 1 << 16;  // along one side of a bin; a region that takes more is not a region of the map

}  // namespace

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
  if (p.sampling > most_samples) fail("sampling_ratio is {}, expected at most {}", p.sampling, most_samples);
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

namespace {

constexpr int64_t most_of_region = int64_t{1} << 27;  // samples, which are listed

/// The two pixels around a coordinate and how far it lies from the first.
struct Between {
  int64_t low, high;
  double rest;
};

Between between(double v, int64_t extent) {
  v = std::max(v, 0.0);
  const int64_t low = truncated(v);
  if (low >= extent - 1) return {extent - 1, extent - 1, 0};
  return {low, low + 1, v - static_cast<double>(low)};
}

int64_t grid_of(int64_t sampling, double extent, int64_t bins) {
  if (sampling > 0) return sampling;
  const double n = std::ceil(extent / static_cast<double>(bins));
  if (!(n <= static_cast<double>(most_samples)))
    fail("a region of extent {} takes more than {} samples a bin; set sampling_ratio", extent, most_samples);
  return std::max<int64_t>(0, truncated(n));
}

}  // namespace

std::vector<RoiSample> roi_samples(const RoiAlign& p, const double region[4], int64_t& per_bin) {
  const double shift = p.half_pixel ? 0.5 : 0;
  const double x0 = region[0] * p.scale - shift, y0 = region[1] * p.scale - shift;
  double width = region[2] * p.scale - shift - x0, height = region[3] * p.scale - shift - y0;
  if (!p.half_pixel) {  // the older form has no regions below one pixel
    width = std::max(width, 1.0);
    height = std::max(height, 1.0);
  }
  const double bin_h = height / static_cast<double>(p.out_height), bin_w = width / static_cast<double>(p.out_width);
  const int64_t grid_h = grid_of(p.sampling, height, p.out_height), grid_w = grid_of(p.sampling, width, p.out_width);
  per_bin = grid_h * grid_w;
  const int64_t count = checked_product(per_bin, p.out_height, p.out_width);
  if (count > most_of_region)
    fail("a region takes {} samples ({} x {} for each of {} x {} bins), expected at most {}", count, grid_h, grid_w, p.out_height,
         p.out_width, most_of_region);
  std::vector<RoiSample> samples(static_cast<size_t>(count));
  auto sample = samples.begin();
  for (int64_t bin = 0; bin < p.out_height * p.out_width; ++bin) {
    const int64_t bin_row = bin / p.out_width, bin_column = bin % p.out_width;
    const double top = y0 + static_cast<double>(bin_row) * bin_h, left = x0 + static_cast<double>(bin_column) * bin_w;
    for (int64_t i = 0; i < per_bin; ++i, ++sample) {
      const int64_t row = i / grid_w, column = i % grid_w;
      const double y = top + (static_cast<double>(row) + 0.5) * bin_h / static_cast<double>(grid_h);
      const double x = left + (static_cast<double>(column) + 0.5) * bin_w / static_cast<double>(grid_w);
      if (!(y >= -1 && y <= static_cast<double>(p.height) && x >= -1 && x <= static_cast<double>(p.width))) continue;
      const Between v = between(y, p.height), h = between(x, p.width);
      *sample = {{v.low * p.width + h.low, v.low * p.width + h.high, v.high * p.width + h.low, v.high * p.width + h.high},
                 {(1 - v.rest) * (1 - h.rest), (1 - v.rest) * h.rest, v.rest * (1 - h.rest), v.rest * h.rest}};
    }
  }
  return samples;
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
    const int64_t bins = p.out_height * p.out_width, plane = p.height * p.width;
    T* y = c.outputs[0].data<T>();
    for (int64_t r = 0; r < p.rois; ++r) {
      const T* corner = c.in(1).data<T>() + r * 4;
      const double region[4] = {static_cast<double>(corner[0]), static_cast<double>(corner[1]), static_cast<double>(corner[2]),
                                static_cast<double>(corner[3])};
      int64_t per_bin = 0;
      const std::vector<RoiSample> samples = roi_samples(p, region, per_bin);
      const int64_t n = item[static_cast<size_t>(r)];
      if (n < 0 || n >= p.batch) fail("batch_indices has {}, expected 0 to {}", n, p.batch - 1);
      for (int64_t ch = 0; ch < p.channels; ++ch) {
        const T* map = c.in(0).data<T>() + (n * p.channels + ch) * plane;
        for (int64_t bin = 0; bin < bins; ++bin) {
          double sum = 0, largest = 0;
          for (int64_t i = 0; i < per_bin; ++i) {
            const RoiSample& s = samples[static_cast<size_t>(bin * per_bin + i)];
            double part[4];
            for (int k = 0; k < 4; ++k) part[k] = s.weight[k] * static_cast<double>(map[s.place[k]]);
            sum += part[0] + part[1] + part[2] + part[3];
            // ONNX's max takes the largest weighted neighbour, not the largest interpolated value.
            const double value = std::max(std::max(part[0], part[1]), std::max(part[2], part[3]));
            largest = i == 0 ? value : std::max(largest, value);
          }
          *y++ = static_cast<T>(p.maximum ? largest : sum / static_cast<double>(std::max<int64_t>(per_bin, 1)));
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
