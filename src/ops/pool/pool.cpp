// Pooling over windows: MaxPool, AveragePool, LpPool; over all of the plane: the Global ones; and MaxUnpool.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/float_reference.h"
#include "ops/core/flops.h"
#include "ops/core/list_inputs.h"
#include "ops/core/window.h"
#include "ops/pool/family.h"
#include "ops/pool/unpool.h"

namespace smelt::ops {
namespace {

struct Pool {
  int64_t planes = 0;  // N * C
  Shape in, out;
  Window window;
};

Pool pool_of(const Node& node, const Shape& x) {
  if (x.size() < 3) fail("X has shape {}, expected [N, C, spatial…]", to_string(x));
  Pool p{x[0] * x[1], spatial_of(x), {}, {}};
  p.window = window_of(node, kernel_shape(node, p.in.size()), p.in);
  const std::string auto_pad = node.get_string("auto_pad", "NOTSET");  // SAME_* and VALID say the extents themselves
  p.out = window_places(p.window, p.in, auto_pad == "NOTSET" && node.get_int("ceil_mode", 0) != 0);
  return p;
}

void infer_pool(InferContext& c) {
  const Shape& x = c.shape(0);
  const Pool p = pool_of(c.node, x);  // looks at the rank
  const Shape y = with_spatial(x[0], x[1], p.out);
  c.set(0, c.in(0).type, y);
  c.set(1, DType::i64, y);  // MaxPool's indices
}

/// The taps of a window that lie in [begin, end) of an axis. A window may be said to be far larger than the grid: nobody walks over it.
PointsInside taps_within(const Window& w, size_t axis, int64_t place, int64_t begin, int64_t end) {
  return points_inside(place * w.stride[axis] - w.pad_begin[axis] - begin, w.dilation[axis], end - begin, w.kernel[axis]);
}

/// Calls f(plane, place, point) for every element under every window, in the order of the taps.
template <class F> void for_elements(const Pool& p, F&& f) {
  const Window& w = p.window;
  const size_t rank = w.rank();
  Shape place(rank, 0), from(rank, 0), count(rank, 0);
  for (int64_t at = 0; at < elements(p.out); ++at, advance(place, p.out)) {
    for (size_t d = 0; d < rank; ++d) {
      const auto [first, end] = taps_within(w, d, place[d], 0, p.in[d]);
      from[d] = place[d] * w.stride[d] - w.pad_begin[d] + first * w.dilation[d];
      count[d] = end - first;
    }
    if (elements(count) == 0) continue;
    for (int64_t plane = 0; plane < p.planes; ++plane) {
      Shape tap(rank, 0);
      do {
        int64_t point = 0;
        for (size_t d = 0; d < rank; ++d) point = point * p.in[d] + from[d] + tap[d] * w.dilation[d];
        f(plane, at, point);
      } while (advance(tap, count));
    }
  }
}

/// The offset inside a plane that MaxPool reports: row-major, or with storage_order 1 column-major.
int64_t stored_index(int64_t point, const Shape& grid, bool column_major) {
  if (!column_major) return point;
  int64_t index = 0, weight = elements(grid), rest = point;
  for (size_t d = grid.size(); d-- > 0;) {
    weight /= grid[d];
    index += rest % grid[d] * weight;
    rest /= grid[d];
  }
  return index;
}

template <class T> T lowest() {
  return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}

template <class T> void max_pool(ComputeContext& c) {
  const Pool p = pool_of(c.node, c.in(0).shape());
  const int64_t in_plane = elements(p.in), out_plane = elements(p.out);
  const T* x = c.in(0).data<T>();
  T* y = c.outputs[0].data<T>();
  std::fill(y, y + c.outputs[0].size(), lowest<T>());
  std::vector<int64_t> best(static_cast<size_t>(c.outputs[0].size()), -1);
  for_elements(p, [&](int64_t plane, int64_t place, int64_t point) {
    const T v = x[plane * in_plane + point];
    const size_t o = static_cast<size_t>(plane * out_plane + place);
    if (best[o] < 0 || v > y[o] || v != v) {  // the first of equals; a NaN stays
      y[o] = v;
      best[o] = point;
    }
  });
  if (c.outputs.size() < 2 || !c.wants(1)) return;
  int64_t* index = c.outputs[1].data<int64_t>();
  const bool column_major = c.node.get_int("storage_order", 0) != 0;
  for (size_t o = 0; o < best.size(); ++o) {
    const int64_t plane = static_cast<int64_t>(o) / out_plane;
    index[o] = best[o] < 0 ? 0 : plane * in_plane + stored_index(best[o], p.in, column_major);
  }
}

void run_max_pool(ComputeContext& ctx) {
  if (ctx.in(0).type() == DType::i8) return max_pool<int8_t>(ctx);
  if (ctx.in(0).type() == DType::u8) return max_pool<uint8_t>(ctx);
  in_float(ctx, [](ComputeContext& c, auto zero) { max_pool<decltype(zero)>(c); });
}

/// Elements that each window's average divides by: taps inside the grid, or with padding inside the padded grid.
std::vector<int64_t> window_counts(const Pool& p, bool with_padding) {
  std::vector<int64_t> counts;
  Shape place(p.window.rank(), 0);
  do {
    int64_t count = 1;
    for (size_t d = 0; d < place.size(); ++d) {
      const int64_t begin = with_padding ? -p.window.pad_begin[d] : 0, end = p.in[d] + (with_padding ? p.window.pad_end[d] : 0);
      const PointsInside taps = taps_within(p.window, d, place[d], begin, end);
      count *= taps.end - taps.begin;
    }
    counts.push_back(count);
  } while (advance(place, p.out));
  return counts;
}

void run_average_pool(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Pool p = pool_of(c.node, c.in(0).shape());
    const int64_t in_plane = elements(p.in), out_plane = elements(p.out);
    if (p.planes * out_plane == 0) return;
    std::vector<double> sums(static_cast<size_t>(p.planes * out_plane), 0.0);
    const T* x = c.in(0).data<T>();
    for_elements(p, [&](int64_t plane, int64_t place, int64_t point) {
      sums[static_cast<size_t>(plane * out_plane + place)] += static_cast<double>(x[plane * in_plane + point]);
    });
    const std::vector<int64_t> counts = window_counts(p, c.node.get_int("count_include_pad", 0) != 0);
    T* y = c.outputs[0].data<T>();
    for (size_t o = 0; o < sums.size(); ++o) {
      const int64_t count = counts[o % counts.size()];
      y[o] = static_cast<T>(count ? sums[o] / static_cast<double>(count) : 0.0);
    }
  });
}

void run_lp_pool(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Pool p = pool_of(c.node, c.in(0).shape());
    const double power = static_cast<double>(c.node.get_int("p", 2));
    const int64_t in_plane = elements(p.in), out_plane = elements(p.out);
    std::vector<double> sums(static_cast<size_t>(p.planes * out_plane), 0.0);
    const T* x = c.in(0).data<T>();
    for_elements(p, [&](int64_t plane, int64_t place, int64_t point) {
      sums[static_cast<size_t>(plane * out_plane + place)] +=
          std::pow(std::abs(static_cast<double>(x[plane * in_plane + point])), power);
    });
    std::transform(sums.begin(), sums.end(), c.outputs[0].data<T>(),
                   [power](double s) { return static_cast<T>(std::pow(s, 1 / power)); });
  });
}

void infer_global(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.size() < 2) fail("X has shape {}, expected [N, C, spatial…]", to_string(x));
  c.set(0, c.in(0).type, with_spatial(x[0], x[1], Shape(x.size() - 2, 1)));
}

/// y = finish(fold over the plane from `start`, elements in it).
template <class Step, class Finish> void global(ComputeContext& ctx, double start, Step step, Finish finish) {
  in_float(ctx, [&](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const int64_t plane = elements(spatial_of(c.in(0).shape()));
    const T* x = c.in(0).data<T>();
    T* y = c.outputs[0].data<T>();
    for (int64_t i = 0; i < c.outputs[0].size(); ++i, x += plane) {
      double v = start;
      for (int64_t k = 0; k < plane; ++k) v = step(v, static_cast<double>(x[k]));
      y[i] = static_cast<T>(finish(v, static_cast<double>(plane)));
    }
  });
}

void run_global_average(ComputeContext& c) {
  global(
      c, 0, [](double s, double v) { return s + v; }, [](double s, double n) { return s / n; });
}
void run_global_max(ComputeContext& c) {
  global(
      c, lowest<double>(), [](double m, double v) { return v > m || v != v ? v : m; }, [](double m, double) { return m; });
}
void run_global_lp(ComputeContext& c) {
  const double p = static_cast<double>(c.node.get_int("p", 2));
  global(
      c, 0, [p](double s, double v) { return s + std::pow(std::abs(v), p); },
      [p](double s, double) { return std::pow(s, 1 / p); });
}

}  // namespace

Shape unpooled_shape(const Node& node, const Shape& x) {
  if (x.size() < 3) fail("X has shape {}, expected [N, C, spatial…]", to_string(x));
  const Shape in = spatial_of(x);
  const Window w = window_of(node, kernel_shape(node, in.size()), in);
  Shape y{x[0], x[1]};
  for (size_t d = 0; d < in.size(); ++d) y.push_back((in[d] - 1) * w.stride[d] + w.extent(d) - w.pad_begin[d] - w.pad_end[d]);
  return y;
}

namespace {

void infer_unpool(InferContext& c) {
  if (c.in(0).shape_known && c.in(1).shape_known && elements(c.shape(1)) != elements(c.shape(0)))
    fail("I has shape {}, expected X's {}", to_string(c.shape(1)), to_string(c.shape(0)));
  if (!c.has(2)) return c.set(0, c.in(0).type, unpooled_shape(c.node, c.shape(0)));
  const auto shape = c.ints(2);
  if (!shape) return c.set_type(0, c.in(0).type);
  if (shape->size() != c.shape(0).size()) fail("output_shape has {} entries, expected {}", shape->size(), c.shape(0).size());
  c.set(0, c.in(0).type, *shape);
}

void run_unpool(ComputeContext& ctx) {
  const Tensor& x = ctx.in(0);
  allocated(ctx, 0, x.type(), ctx.has(2) ? Shape(ctx.in(2).to_ints()) : unpooled_shape(ctx.node, x.shape()));
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    // Indices count in the shape the pooling saw; an output_shape that is larger keeps that part in its first corner.
    const Shape from = unpooled_shape(c.node, c.in(0).shape()), &to = c.outputs[0].shape();
    const Shape step = strides(to);
    const int64_t size = elements(from);
    const T* x = c.in(0).data<T>();
    const int64_t* index = c.in(1).data<int64_t>();
    T* y = c.outputs[0].data<T>();
    std::fill(y, y + c.outputs[0].size(), T{});
    for (int64_t i = 0; i < c.in(0).size(); ++i) {
      if (index[i] < 0 || index[i] >= size) fail("index {} is outside the unpooled {} elements", index[i], size);
      if (from == to) {
        y[index[i]] = x[i];
        continue;
      }
      int64_t rest = index[i], offset = 0;
      bool inside = true;
      for (size_t d = from.size(); d-- > 0;) {
        inside = inside && rest % from[d] < to[d];
        offset += rest % from[d] * step[d];
        rest /= from[d];
      }
      if (inside) y[offset] = x[i];
    }
  });
}

}  // namespace

std::span<const OpRow> pool_ops() {
  static constexpr OpRow table[] = {
      {{"MaxPool", onnx_domain, infer_pool, run_max_pool}, {.flops = {.count = pool_flops}}},
      {{"AveragePool", onnx_domain, infer_pool, run_average_pool}, {.flops = {.count = pool_flops}}},
      {{"LpPool", onnx_domain, infer_pool, run_lp_pool}, {.flops = {.count = pool_flops}, .expands_on_gpu = true}},
      {{"GlobalAveragePool", onnx_domain, infer_global, run_global_average}, {.flops = {.of_input = 1}}},
      {{"GlobalMaxPool", onnx_domain, infer_global, run_global_max}, {.flops = {.of_input = 1}}},
      {{"GlobalLpPool", onnx_domain, infer_global, run_global_lp}, {.flops = {.of_input = 1}, .expands_on_gpu = true}},
      {{"MaxUnpool", onnx_domain, infer_unpool, run_unpool}, {.expands_on_gpu = true}},
  };
  return table;
}

}  // namespace smelt::ops
