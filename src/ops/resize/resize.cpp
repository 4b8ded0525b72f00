// Resize and Upsample. Interpolation is separable: every resized axis gets a list of input places and weights for each
// output place, and the axes are resampled one after the other.
#include "ops/resize/resize.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/axis_table.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/resize/cubic.h"

namespace smelt::ops {
namespace {

std::vector<size_t> resized_axes(const Node& node, size_t rank) {
  std::vector<size_t> axes;
  if (!node.has("axes")) {
    for (size_t d = 0; d < rank; ++d) axes.push_back(d);
    return axes;
  }
  for (int64_t a : node.get_ints("axes")) axes.push_back(static_cast<size_t>(normalize_axis(a, static_cast<int64_t>(rank))));
  return axes;
}

void expect_count(const char* what, size_t found, size_t expected) {
  if (found != expected) fail("{} has {} elements, expected {}", what, found, expected);
}

constexpr int64_t largest_extent = int64_t{1} << 40;

int64_t scaled_extent(int64_t in, float scale) {
  if (!(scale > 0)) fail("scales has {}, expected a positive number", scale);
  const float out = std::floor(static_cast<float>(in) * scale);
  if (!(out <= static_cast<float>(largest_extent))) fail("scale {} makes an extent of {} too large", scale, in);
  return truncated(static_cast<double>(out));
}

}  // namespace

std::vector<ResizeAxis> resize_axes(const Node& node, const Shape& x, const Tensor* roi, const Tensor* scales,
                                    const Tensor* sizes) {
  const std::vector<size_t> axes = resized_axes(node, x.size());
  std::vector<ResizeAxis> out(x.size());
  for (size_t d = 0; d < x.size(); ++d) out[d].in = out[d].out = x[d];
  if ((scales != nullptr) == (sizes != nullptr)) fail("one of scales and sizes must be given");
  if (scales) {
    const std::vector<double> s = scales->to_doubles();
    expect_count("scales", s.size(), axes.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      ResizeAxis& a = out[axes[i]];
      a.scale = s[i];
      a.out = scaled_extent(a.in, static_cast<float>(s[i]));
    }
  } else {
    const std::vector<int64_t> s = sizes->to_ints();
    expect_count("sizes", s.size(), axes.size());
    const std::string policy = node.get_string("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller") {
      fail("keep_aspect_ratio_policy is '{}', expected stretch, not_larger or not_smaller", policy);
    }
    double common = 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      ResizeAxis& a = out[axes[i]];
      if (s[i] < 0 || s[i] > largest_extent) fail("sizes has {}, expected 0 to {}", s[i], largest_extent);
      a.out = s[i];
      a.exact = true;
      a.scale = a.in ? static_cast<double>(s[i]) / static_cast<double>(a.in) : 1;
      if (i == 0 || (policy == "not_larger" ? a.scale < common : a.scale > common)) common = a.scale;
    }
    if (policy != "stretch") {
      for (size_t i : axes) {
        out[i].scale = common;
        out[i].exact = false;
        out[i].out = truncated(std::floor(common * static_cast<double>(out[i].in) + 0.5));
        if (out[i].out > largest_extent) fail("sizes {} make an extent of {} too large", to_string(s), out[i].in);
      }
    }
  }
  if (roi && node.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize") {
    const std::vector<double> r = roi->to_doubles();
    expect_count("roi", r.size(), 2 * axes.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      out[axes[i]].roi_begin = r[i];
      out[axes[i]].roi_end = r[axes.size() + i];
    }
  }
  return out;
}

std::string resize_transformation(const Node& node) {
  return node.get_string("coordinate_transformation_mode", node.op == "Upsample" ? "asymmetric" : "half_pixel");
}

double resize_coordinate(const ResizeAxis& a, const std::string& mode, int64_t place) {
  const double x = static_cast<double>(place), in = static_cast<double>(a.in), out = static_cast<double>(a.out);
  // With sizes x * in / out is exact where x / (out / in) is not: nearest then takes the same pixel everywhere.
  const auto unscale = [&](double v) { return a.exact ? v * in / out : v / a.scale; };
  const double width = a.exact ? out : a.scale * in;
  if (mode == "half_pixel") return unscale(x + 0.5) - 0.5;
  if (mode == "half_pixel_symmetric") return in / 2 * (1 - out / width) + unscale(x + 0.5) - 0.5;
  if (mode == "pytorch_half_pixel") return a.out > 1 ? unscale(x + 0.5) - 0.5 : 0;
  if (mode == "align_corners") return width == 1 ? 0 : x * (in - 1) / (width - 1);
  if (mode == "asymmetric") return unscale(x);
  if (mode == "tf_half_pixel_for_nn") return unscale(x + 0.5);  // opsets 11 and 12
  if (mode == "tf_crop_and_resize") {
    if (a.out > 1) return a.roi_begin * (in - 1) + x * (a.roi_end - a.roi_begin) * (in - 1) / (width - 1);
    return 0.5 * (a.roi_begin + a.roi_end) * (in - 1);
  }
  fail("coordinate_transformation_mode is '{}', which ONNX does not define", mode);
}

int64_t nearest_place(double x, const std::string& mode) {
  if (mode == "round_prefer_floor") return truncated(std::ceil(x - 0.5));
  if (mode == "round_prefer_ceil") return truncated(std::floor(x + 0.5));
  if (mode == "floor") return truncated(std::floor(x));
  if (mode == "ceil") return truncated(std::ceil(x));
  fail("nearest_mode is '{}', expected round_prefer_floor, round_prefer_ceil, floor or ceil", mode);
}

std::vector<ResizeTap> resize_taps(const Node& node, const ResizeAxis& axis, double coordinate) {
  const bool cubic = node.get_string("mode", "nearest") == "cubic", excludes = node.get_int("exclude_outside", 0) != 0;
  const double a = node.get_float("cubic_coeff_a", -0.75f);
  const double stretch = node.get_int("antialias", 0) ? std::min(axis.scale, 1.0) : 1.0;  // of the kernel, when it shrinks
  const double radius = (cubic ? 2 : 1) / stretch;
  std::vector<ResizeTap> taps;
  double total = 0;
  const double first = std::floor(coordinate - radius) + 1;
  for (int64_t k = 0;; ++k) {  // not ++i: far enough out, i + 1 is i
    const double i = first + static_cast<double>(k);
    if (!(i < coordinate + radius) || static_cast<double>(k) > 2 * radius) break;
    const double distance = (i - coordinate) * stretch;
    const double weight = cubic ? cubic_kernel(distance, a) : linear_kernel(distance);
    const bool outside = i < 0 || i > static_cast<double>(axis.in - 1);
    if (weight == 0 || (excludes && outside)) continue;
    taps.push_back({static_cast<int64_t>(std::clamp(i, 0.0, static_cast<double>(axis.in - 1))), weight});
    total += weight;
  }
  if (excludes || stretch < 1) {
    for (ResizeTap& t : taps) t.weight /= total;
  }
  return taps;
}

namespace {

struct Inputs {
  const Tensor *roi = nullptr, *scales = nullptr, *sizes = nullptr;
};

template <class Context> Inputs inputs_of(const Context& c) {
  const auto present = [&](size_t i) -> const Tensor* {
    if (!c.has(i)) return nullptr;
    const Tensor* t;
    if constexpr (std::is_same_v<Context, InferContext>)
      t = c.in(i).value;
    else
      t = &c.in(i);
    return t && t->size() > 0 ? t : nullptr;  // exporters write an empty tensor for one left out
  };
  if (c.node.op == "Upsample") return {nullptr, present(1), nullptr};
  return {present(1), present(2), present(3)};
}

/// The next place of a tensor of this shape, the last axis first; after the last place the first one again.
void next_place(Shape& place, const Shape& shape) {
  for (size_t d = place.size(); d-- > 0;) {
    if (++place[d] < shape[d]) return;
    place[d] = 0;
  }
}

void run_nearest(ComputeContext& c, const std::vector<ResizeAxis>& axes, const std::string& transformation) {
  const std::string mode = c.node.get_string("nearest_mode", c.node.op == "Upsample" ? "floor" : "round_prefer_floor");
  const Tensor& x = c.in(0);
  Tensor& y = c.outputs[0];
  if (bits(x.type()) < 8) fail_unsupported("{} elements are not supported", name(x.type()));
  const int64_t width = bits(x.type()) / 8;
  const Shape step = strides(x.shape());
  std::vector<std::vector<int64_t>> offsets(axes.size());  // in bytes; -1 outside the region of interest
  for (size_t d = 0; d < axes.size(); ++d) {
    check_axis_table(axes[d].out);
    for (int64_t o = 0; o < axes[d].out; ++o) {
      const double at = resize_coordinate(axes[d], transformation, o);
      const bool outside = transformation == "tf_crop_and_resize" && (at < 0 || at > static_cast<double>(axes[d].in - 1));
      const int64_t i = std::clamp<int64_t>(nearest_place(at, mode), 0, axes[d].in - 1);
      offsets[d].push_back(outside ? -1 : i * step[d] * width);
    }
  }
  const Tensor beyond = Tensor::scalar(c.node.get_float("extrapolation_value", 0)).cast(x.type());
  Shape place(axes.size(), 0);
  for (int64_t o = 0; o < y.size(); ++o) {
    int64_t offset = 0;
    for (size_t d = 0; d < axes.size() && offset >= 0; ++d) {
      const int64_t part = offsets[d][static_cast<size_t>(place[d])];
      offset = part < 0 ? -1 : offset + part;
    }
    const void* from = offset < 0 ? beyond.raw() : static_cast<const char*>(x.raw()) + offset;
    std::memcpy(static_cast<char*>(y.raw()) + o * width, from, static_cast<size_t>(width));
    next_place(place, y.shape());
  }
}

/// One axis of `data` (shape `shape`, changed to the result's) resampled with the taps of each output place.
std::vector<double> resampled(const std::vector<double>& data, Shape& shape, size_t axis,
                              const std::vector<std::vector<ResizeTap>>& taps) {
  const AxisView v = around_axis(shape, static_cast<int64_t>(axis));
  shape[axis] = static_cast<int64_t>(taps.size());
  std::vector<double> out(static_cast<size_t>(elements(shape)), 0.0);
  double* to = out.data();
  for (int64_t o = 0; o < v.outer; ++o) {
    for (const std::vector<ResizeTap>& place : taps) {
      for (const ResizeTap& t : place) {
        const double* from = data.data() + (o * v.extent + t.place) * v.inner;
        for (int64_t i = 0; i < v.inner; ++i) to[i] += t.weight * from[i];
      }
      to += v.inner;
    }
  }
  return out;
}

void run_interpolated(ComputeContext& c, const std::vector<ResizeAxis>& axes, const std::string& transformation) {
  Tensor& y = c.outputs[0];
  std::vector<double> data = c.in(0).to_doubles();
  Shape shape = c.in(0).shape();
  std::vector<std::vector<bool>> outside(axes.size());
  bool any_outside = false;
  for (size_t d = 0; d < axes.size(); ++d) {
    outside[d].assign(static_cast<size_t>(axes[d].out), false);
    if (axes[d].scale == 1 && axes[d].in == axes[d].out && transformation != "tf_crop_and_resize") continue;
    check_axis_table(axes[d].out, 128);
    std::vector<std::vector<ResizeTap>> taps;
    for (int64_t o = 0; o < axes[d].out; ++o) {
      const double at = resize_coordinate(axes[d], transformation, o);
      if (transformation == "tf_crop_and_resize" && (at < 0 || at > static_cast<double>(axes[d].in - 1))) {
        outside[d][static_cast<size_t>(o)] = any_outside = true;
      }
      taps.push_back(resize_taps(c.node, axes[d], at));
    }
    data = resampled(data, shape, d, taps);
  }
  if (any_outside) {
    const double beyond = c.node.get_float("extrapolation_value", 0);
    Shape place(axes.size(), 0);
    for (double& v : data) {
      for (size_t d = 0; d < place.size(); ++d) {
        if (outside[d][static_cast<size_t>(place[d])]) v = beyond;
      }
      next_place(place, shape);
    }
  }
  const Tensor wide = Tensor::borrow(DType::f64, shape, data.data());
  const Tensor result = wide.cast(y.type());
  std::memcpy(y.raw(), result.raw(), static_cast<size_t>(y.nbytes()));
}

}  // namespace

void infer_resize(InferContext& c) {
  const std::string mode = c.node.get_string("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "bilinear" && mode != "cubic")
    fail("mode is '{}', expected nearest, linear or cubic", mode);
  resize_coordinate({}, resize_transformation(c.node), 0);  // these throw where they do not know the mode
  if (mode == "nearest") nearest_place(0, c.node.get_string("nearest_mode", "round_prefer_floor"));
  const bool upsample = c.node.op == "Upsample";
  const Inputs in = inputs_of(c);
  const bool unknown =
      (c.has(1) && upsample && !c.in(1).value) || (!upsample && ((c.has(2) && !c.in(2).value) || (c.has(3) && !c.in(3).value)));
  if (unknown) return c.set_type(0, type_of(c, 0));
  Shape y;
  for (const ResizeAxis& a : resize_axes(c.node, c.shape(0), nullptr, in.scales, in.sizes)) y.push_back(a.out);
  if (elements(c.shape(0)) == 0 && elements(y) > 0)
    fail("cannot resize an empty tensor of shape {} to {}", to_string(c.shape(0)), to_string(y));
  c.set(0, type_of(c, 0), y);
}

void run_resize(ComputeContext& c) {
  const Inputs in = inputs_of(c);
  const std::vector<ResizeAxis> axes = resize_axes(c.node, c.in(0).shape(), in.roi, in.scales, in.sizes);
  const std::string mode = c.node.get_string("mode", "nearest");
  const std::string transformation = resize_transformation(c.node);
  Shape y;
  for (const ResizeAxis& a : axes) y.push_back(a.out);
  if (allocated(c, 0, c.in(0).type(), y).size() == 0) return;
  if (c.in(0).size() == 0) fail("cannot resize an empty tensor of shape {}", to_string(c.in(0).shape()));
  if (mode == "nearest")
    run_nearest(c, axes, transformation);
  else
    run_interpolated(c, axes, transformation);
}

}  // namespace smelt::ops
