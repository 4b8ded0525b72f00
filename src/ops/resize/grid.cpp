// GridSample and AffineGrid, in any number of spatial dimensions.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/copy.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/core/strides.h"
#include "ops/core/window.h"
#include "ops/resize/cubic.h"
#include "ops/resize/family.h"
#include "ops/resize/grid.h"
#include "ops/resize/resize.h"

namespace smelt::ops {
namespace {

/// Reflects x at the ends of [low, high] until it lies inside.
double reflected(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const bool below = x < low;
  if (!below && x <= high) return x;
  const double beyond = below ? low - x : x - high, turns = std::floor(beyond / range), rest = beyond - turns * range;
  const bool even = std::fmod(turns, 2) == 0;
  return (below == even) ? low + rest : high - rest;
}

/// x rounded, halves to the even number: the library's is a call.
double nearest_whole(double x) {
  constexpr double to_last_bits = 0x1.8p52;
  return std::abs(x) < 0x1p51 ? (x + to_last_bits) - to_last_bits : x;
}

}  // namespace

/// One spatial axis of X.
struct GridSampling::Axis {
  int64_t extent;
  Padding padding;
  bool align;
  double low() const { return align ? 0.0 : -0.5; }
  double high() const { return static_cast<double>(extent) - (align ? 1.0 : 0.5); }

  /// Pixel coordinate of a normalised one, brought inside as the padding asks.
  double coordinate(double g, bool nearest) const {
    const double length = static_cast<double>(extent);
    double x = align ? (g + 1) / 2 * (length - 1) : ((g + 1) * length - 1) / 2;
    if (nearest) x = nearest_whole(x);
    if (x >= low() && x <= high()) return x;
    if (padding == Padding::border) return std::clamp(x, 0.0, length - 1);
    return padding == Padding::reflection && std::isfinite(x) ? reflected(x, low(), high()) : x;
  }
  /// The pixel that stands for pixel i; -1 for none.
  int64_t pixel(double i) const {
    if (i >= 0 && i < static_cast<double>(extent)) return static_cast<int64_t>(i);
    if (padding == Padding::zeros || !std::isfinite(i) || extent == 0) return -1;
    if (padding == Padding::border) return i < 0 ? 0 : extent - 1;
    return std::clamp<int64_t>(truncated(reflected(i, low(), high())), 0, extent - 1);
  }
};

GridSampling::GridSampling(const Node& node) : align_(node.get_int("align_corners", 0) != 0) {
  const std::string padding = node.get_string("padding_mode", "zeros"), mode = node.get_string("mode", "linear");
  if (padding == "border")
    padding_ = Padding::border;
  else if (padding == "reflection")
    padding_ = Padding::reflection;
  else if (padding != "zeros")
    fail("padding_mode is '{}', expected zeros, border or reflection", padding);
  if (mode == "nearest")
    interpolation_ = Interpolation::nearest;
  else if (mode == "cubic" || mode == "bicubic")
    interpolation_ = Interpolation::cubic;
  else if (mode != "linear" && mode != "bilinear")
    fail("mode is '{}', expected nearest, linear or cubic", mode);
}

std::optional<GridGeometry> GridSampling::geometry(const Shape& spatial) const {
  constexpr int64_t largest = int64_t{1} << 31;
  if (interpolation_ == Interpolation::cubic || spatial.empty() || spatial.size() > grid_axes) return std::nullopt;
  if (elements(spatial) == 0 || elements(spatial) >= largest) return std::nullopt;
  GridGeometry g{};
  g.axes = static_cast<int>(spatial.size());
  const Shape steps = strides(spatial);
  std::ranges::copy(spatial, g.extents);
  std::ranges::copy(steps, g.steps);
  g.padding = padding_;
  g.align = align_;
  g.nearest = interpolation_ == Interpolation::nearest;
  return g;
}

GridTaps GridSampling::taps(int64_t extent, double coordinate) const {
  const Axis axis{extent, padding_, align_};
  const double x = axis.coordinate(coordinate, interpolation_ == Interpolation::nearest);
  GridTaps t;
  if (interpolation_ == Interpolation::nearest) {
    t.add(axis.pixel(nearest_whole(x)), 1);
    return t;
  }
  const bool cubic = interpolation_ == Interpolation::cubic;
  if (!cubic && x >= 0 && x < static_cast<double>(extent - 1)) {  // between two pixels that are there
    const auto first = static_cast<int64_t>(x);
    const double beyond = x - static_cast<double>(first);
    t.add(first, 1 - beyond);
    t.add(first + 1, beyond);
    return t;
  }
  const double base = std::floor(x);
  for (int k = cubic ? -1 : 0; k <= (cubic ? 2 : 1); ++k) {  // not by i itself: far enough out, i + 1 is i
    const double i = base + k;
    t.add(axis.pixel(i), cubic ? cubic_kernel(i - x, -0.75) : linear_kernel(i - x));
  }
  return t;
}

namespace {

Shape grid_output(const Shape& x, const Shape& grid) {
  if (x.size() < 3 || grid.size() != x.size())
    fail("X and grid have shapes {} and {}, expected equal ranks of 3 or more", to_string(x), to_string(grid));
  if (grid[0] != x[0] || grid.back() != static_cast<int64_t>(x.size()) - 2) {
    fail("grid has shape {}, expected {} first and {} last", to_string(grid), x[0], x.size() - 2);
  }
  Shape y = with_spatial(x[0], x[1], Shape(grid.begin() + 1, grid.end() - 1));
  if (elements(x) == 0 && elements(y) > 0)
    fail("X has shape {}, which has no pixels for an output {}", to_string(x), to_string(y));
  return y;
}

void infer_grid_sample(InferContext& c) { c.set(0, type_of(c, 0), grid_output(c.shape(0), c.shape(1))); }

/// Integers are sampled as doubles, and cut to whole numbers.
void sample_integers(ComputeContext& c);

void run_grid_sample(ComputeContext& ctx) {
  if (!is_float(ctx.in(0).type())) return sample_integers(ctx);
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Shape spatial = spatial_of(c.in(0).shape()), step = strides(spatial);
    const int64_t in_plane = elements(spatial), channels = c.in(0).shape()[1], batch = c.in(0).shape()[0];
    const size_t rank = spatial.size();
    const int64_t places = c.in(1).size() / std::max<int64_t>(1, batch * static_cast<int64_t>(rank));
    const GridSampling sampling(c.node);
    const T *x = c.in(0).data<T>(), *grid = c.in(1).data<T>();
    T* y = c.outputs[0].data<T>();
    std::vector<GridTaps> taps(rank);
    Shape counts(rank), corner(rank);
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t o = 0; o < places; ++o) {
        const T* at = grid + (n * places + o) * static_cast<int64_t>(rank);
        bool none = false;
        for (size_t d = 0; d < rank; ++d) {  // a position lists the innermost axis first
          taps[d] = sampling.taps(spatial[d], static_cast<double>(at[rank - 1 - d]));
          counts[d] = taps[d].count;
          none = none || taps[d].count == 0;
        }
        for (int64_t ch = 0; ch < channels; ++ch) {
          const T* plane = x + (n * channels + ch) * in_plane;
          double sum = 0;
          if (!none) {
            std::fill(corner.begin(), corner.end(), 0);
            do {
              double weight = 1;
              int64_t offset = 0;
              for (size_t d = 0; d < rank; ++d) {
                weight *= taps[d].weight[corner[d]];
                offset += taps[d].place[corner[d]] * step[d];
              }
              sum += weight * static_cast<double>(plane[offset]);
            } while (advance(corner, counts));
          }
          y[(n * channels + ch) * places + o] = static_cast<T>(sum);
        }
      }
    }
  });
}

void sample_integers(ComputeContext& c) {
  Tensor inputs[] = {c.in(0).cast(DType::f64), c.in(1)};
  Tensor outputs[] = {Tensor::empty(DType::f64, c.outputs[0].shape())};
  ComputeContext real{c.node, inputs, outputs, {}};
  run_grid_sample(real);
  copy_all(outputs[0].cast(c.outputs[0].type()), c.outputs[0]);
}

void infer_affine_grid(InferContext& c) {
  const Shape& theta = c.shape(0);
  if (theta.size() != 3 || theta[2] != theta[1] + 1 || theta[1] < 2 || theta[1] > 3)
    fail("theta has shape {}, expected [N, 2, 3] or [N, 3, 4]", to_string(theta));
  const auto size = c.ints(1);
  if (!size) return c.set_type(0, type_of(c, 0));
  if (static_cast<int64_t>(size->size()) != theta[1] + 2) fail("size has {} elements, expected {}", size->size(), theta[1] + 2);
  Shape y{theta[0]};
  y.insert(y.end(), size->begin() + 2, size->end());
  y.push_back(theta[1]);
  c.set(0, type_of(c, 0), y);
}

void run_affine_grid(ComputeContext& ctx) {
  const std::vector<int64_t> size = ctx.in(1).to_ints();
  Shape y{ctx.in(0).shape()[0]};
  y.insert(y.end(), size.begin() + 2, size.end());
  y.push_back(ctx.in(0).shape()[1]);
  allocated(ctx, 0, ctx.in(0).type(), y);
  in_float(ctx, [&](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Shape spatial(size.begin() + 2, size.end());
    const size_t rank = spatial.size();
    const bool align = c.node.get_int("align_corners", 0) != 0;
    const T* theta = c.in(0).data<T>();
    T* y = c.outputs[0].data<T>();
    if (c.outputs[0].size() == 0) return;
    std::vector<std::vector<double>> along(rank);  // each axis' coordinates
    for (size_t d = 0; d < rank; ++d)
      for (int64_t i = 0; i < spatial[d]; ++i) {
        const double at = static_cast<double>(i), length = static_cast<double>(spatial[d]);
        along[d].push_back(align ? (length == 1 ? 0.0 : 2 * at / (length - 1) - 1) : (2 * at + 1) / length - 1);
      }
    const Shape outer(spatial.begin(), spatial.end() - 1);
    for (int64_t n = 0; n < c.in(0).shape()[0]; ++n, theta += rank * (rank + 1)) {
      Shape place(rank - 1, 0);
      do {  // a row of the innermost axis: what the others add, then its own part
        double sums[3] = {}, steps[3] = {};
        for (size_t row = 0; row < rank; ++row) {
          const T* own = theta + row * (rank + 1);  // innermost axis first, then the offset
          steps[row] = static_cast<double>(own[0]);
          sums[row] = static_cast<double>(own[rank]);
          for (size_t d = 0; d + 1 < rank; ++d)
            sums[row] += static_cast<double>(own[rank - 1 - d]) * along[d][static_cast<size_t>(place[d])];
        }
        for (const double x : along[rank - 1])
          for (size_t row = 0; row < rank; ++row) *y++ = static_cast<T>(sums[row] + steps[row] * x);
      } while (advance(place, outer));
    }
  });
}

}  // namespace

std::span<const OpRow> sample_ops() {
  static constexpr OpRow table[] = {
      {{"Resize", onnx_domain, infer_resize, run_resize}, {.flops = {.of_input = 1}, .autocast = Autocast::fp32}},
      {{"Upsample", onnx_domain, infer_resize, run_resize}},
      {{"GridSample", onnx_domain, infer_grid_sample, run_grid_sample}, {.autocast = Autocast::fp32}},
      {{"AffineGrid", onnx_domain, infer_affine_grid, run_affine_grid}, {.autocast = Autocast::fp32}},
  };
  return table;
}

}  // namespace smelt::ops
