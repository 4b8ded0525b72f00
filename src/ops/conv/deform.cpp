// DeformConv: a convolution that samples its input at learned offsets from the regular grid, with linear interpolation.
// Dai et al., arXiv:1703.06211; the mask is that of arXiv:1811.11168.
#include <cmath>

#include "base/error.h"
#include "ops/conv/deform.h"
#include "ops/core/float_reference.h"

namespace smelt::ops {

Deform deform_problem(const Node& node, const Shape& x, const Shape& w, const Shape& offset) {
  Deform d{conv_problem(node, x, w), node.get_int("offset_group", 1)};
  if (d.groups < 1 || d.conv.c % d.groups) fail("offset_group {} does not divide C = {}", d.groups, d.conv.c);
  const int64_t rank = static_cast<int64_t>(d.conv.in.size());
  const Shape expected = with_spatial(d.conv.n, d.groups * elements(d.conv.window.kernel) * rank, d.conv.out);
  if (offset != expected) fail("offset has shape {}, expected {}", to_string(offset), to_string(expected));
  return d;
}

namespace {

/// Value of `plane` (extents `grid`) at a fractional position: linear in every axis, zero outside the grid.
template <class T> double sample(const T* plane, const Shape& grid, const std::vector<double>& at) {
  double sum = 0;
  for (size_t corner = 0; corner < (size_t{1} << grid.size()); ++corner) {
    double weight = 1;
    int64_t offset = 0;
    bool inside = true;
    for (size_t d = 0; d < grid.size() && inside; ++d) {
      const double low = std::floor(at[d]);
      const bool high = (corner >> d) & 1;
      weight *= high ? at[d] - low : 1 - (at[d] - low);
      const double i = low + (high ? 1 : 0);
      inside = weight != 0 && i >= 0 && i < static_cast<double>(grid[d]);  // a NaN position is outside
      if (inside) offset = offset * grid[d] + static_cast<int64_t>(i);
    }
    if (inside) sum += weight * static_cast<double>(plane[offset]);
  }
  return sum;
}

}  // namespace

void infer_deform(InferContext& c) {
  const Deform d = deform_problem(c.node, c.shape(0), c.shape(1), c.shape(2));
  if (const Shape one_each{d.conv.m}; c.has(3) && c.shape(3) != one_each)
    fail("the bias has shape {}, expected {}", to_string(c.shape(3)), to_string(one_each));
  if (c.has(4)) {
    const Shape expected = with_spatial(d.conv.n, d.groups * elements(d.conv.window.kernel), d.conv.out);
    if (c.shape(4) != expected) fail("mask has shape {}, expected {}", to_string(c.shape(4)), to_string(expected));
  }
  c.set(0, c.in(0).type, with_spatial(d.conv.n, d.conv.m, d.conv.out));
}

void run_deform(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Deform d = deform_problem(c.node, c.in(0).shape(), c.in(1).shape(), c.in(2).shape());
    const ConvProblem& p = d.conv;
    const T *x = c.in(0).data<T>(), *w = c.in(1).data<T>(), *offset = c.in(2).data<T>();
    const T *bias = optional_data<T>(c, 3), *mask = optional_data<T>(c, 4);
    T* y = c.outputs[0].data<T>();
    const size_t rank = p.in.size();
    const int64_t in_plane = elements(p.in), out_plane = elements(p.out), taps = elements(p.window.kernel);
    const int64_t group_c = p.c / p.group, group_m = p.m / p.group, offset_c = p.c / d.groups;
    std::vector<double> at(rank);
    if (elements(c.outputs[0].shape()) == 0) return;
    for (int64_t n = 0; n < p.n; ++n) {
      Shape place(rank, 0);
      for (int64_t o = 0; o < out_plane; ++o, advance(place, p.out)) {
        std::vector<double> sums(static_cast<size_t>(p.m), 0.0);
        for (int64_t ch = 0; ch < p.c; ++ch) {
          const int64_t group = n * d.groups + ch / offset_c;
          Shape tap(rank, 0);
          for (int64_t k = 0; k < taps; ++k, advance(tap, p.window.kernel)) {
            for (size_t a = 0; a < rank; ++a) {
              const int64_t row = (group * taps + k) * static_cast<int64_t>(rank) + static_cast<int64_t>(a);
              at[a] = static_cast<double>(place[a] * p.window.stride[a] + tap[a] * p.window.dilation[a] - p.window.pad_begin[a]) +
                      static_cast<double>(offset[row * out_plane + o]);
            }
            double v = sample(x + (n * p.c + ch) * in_plane, p.in, at);
            if (mask) v *= static_cast<double>(mask[(group * taps + k) * out_plane + o]);
            const int64_t g = ch / group_c;
            for (int64_t m = g * group_m; m < (g + 1) * group_m; ++m) {
              sums[static_cast<size_t>(m)] += v * static_cast<double>(w[(m * group_c + ch % group_c) * taps + k]);
            }
          }
        }
        for (int64_t m = 0; m < p.m; ++m) {
          y[(n * p.m + m) * out_plane + o] =
              static_cast<T>(sums[static_cast<size_t>(m)] + (bias ? static_cast<double>(bias[m]) : 0.0));
        }
      }
    }
  });
}

}  // namespace smelt::ops
