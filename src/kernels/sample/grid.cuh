// GridSample: samples images at the places of a grid.
//
//   y[n, c, o] = x[n, c] interpolated at grid[n, o]
//
//   x       [N, C, extents…]
//   grid    [N, places…, Rank]     coordinates, innermost axis first; -1 to 1 is the extent of the image
//   y       [N, C, places…]
//
// All tensors are dense. Coordinates are in double, as on the CPU: otherwise rounding could select another nearest pixel.
//
// Launch: one thread per place of y and Channels neighbouring channels, which are sampled by the same weights.
#pragma once

#include "common/convert.cuh"
#include "kernels/sample/grid.h"

enum class Padding { zeros, border, reflection };    // outside of the image
enum class Between { nearest, linear, cubic };       // interpolation between pixels

/// Reflects x at the ends of [low, high] until it lies inside.
__device__ __forceinline__ double reflected(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const bool below = x < low;
  if (!below && x <= high) return x;
  const double beyond = below ? low - x : x - high, turns = floor(beyond / range), rest = beyond - turns * range;
  const bool even = fmod(turns, 2.0) == 0;
  return below == even ? low + rest : high - rest;
}

/// Align: -1 and 1 are the centres of the first and the last pixel, else their outer edges.
template <Padding P, Between B, bool Align> struct GridAxis {
  i64 extent;
  __device__ __forceinline__ double low() const { return Align ? 0.0 : -0.5; }
  __device__ __forceinline__ double high() const { return static_cast<double>(extent) - (Align ? 1.0 : 0.5); }
  /// The place in pixels of a coordinate from -1 to 1.
  __device__ __forceinline__ double coordinate(double g) const {
    const double length = static_cast<double>(extent);
    double x = Align ? (g + 1) / 2 * (length - 1) : ((g + 1) * length - 1) / 2;
    if (B == Between::nearest) x = rint(x);
    if (x >= low() && x <= high()) return x;
    if (P == Padding::border) return fmin(fmax(x, 0.0), length - 1);
    return P == Padding::reflection && isfinite(x) ? reflected(x, low(), high()) : x;
  }
  /// The pixel that is read for pixel i, which may lie outside of the image; -1: none, its value is 0.
  __device__ __forceinline__ i64 pixel(double i) const {
    if (i >= 0 && i < static_cast<double>(extent)) return static_cast<i64>(i);
    if (P == Padding::zeros || !isfinite(i)) return -1;
    if (P == Padding::border) return i < 0 ? 0 : extent - 1;
    const i64 at = static_cast<i64>(reflected(i, low(), high()));
    return at < 0 ? 0 : at >= extent ? extent - 1 : at;
  }
};

/// The weight of a pixel at distance d: linear interpolation, or Keys' cubic convolution with a = -0.75.
template <Between B> __device__ __forceinline__ double grid_weight(double d) {
  const double x = fabs(d), a = -0.75;
  if (B == Between::linear) return x < 1 ? 1 - x : 0;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

template <Padding P, Between B, bool Align, int Channels, class T, class G, int Rank>
__device__ __forceinline__ void sample_grid(const GridArgs<T, G, Rank>& a) {
  const u32 element = blockIdx.x * blockDim.x + threadIdx.x;
  if (element >= a.count) return;
  constexpr int taps = B == Between::nearest ? 1 : B == Between::linear ? 2 : 4;
  constexpr int corners = Rank == 1 ? taps : Rank == 2 ? taps * taps : taps * taps * taps;
  const u32 places = static_cast<u32>(a.places), group = element / places, o = element - group * places;
  const i64 n = group / a.groups, channel = (group - n * a.groups) * Channels, image = n * a.channels + channel;
  i64 place[Rank][taps];                                                                          // (Rank, taps)
  double weight[Rank][taps];                                                                      // (Rank, taps)
#pragma unroll
  for (int d = 0; d < Rank; ++d) {
    const GridAxis<P, B, Align> axis{a.extents[d]};
    const double at = axis.coordinate(widened<double>(a.grid[(n * a.places + o) * Rank + Rank - 1 - d]));
    const double base = B == Between::nearest ? rint(at) : floor(at) - (B == Between::cubic ? 1 : 0);
#pragma unroll
    for (int k = 0; k < taps; ++k) {
      place[d][k] = axis.pixel(base + k);
      weight[d][k] = B == Between::nearest ? 1 : grid_weight<B>(base + k - at);
    }
  }
  double sum[Channels] = {};
#pragma unroll
  for (int c = 0; c < corners; ++c) {
    double w = 1;
    i64 offset = image * a.plane;
    bool inside = true;
#pragma unroll
    for (int d = 0, rest = c; d < Rank; ++d, rest /= taps) {
      const int k = rest % taps;
      inside = inside && place[d][k] >= 0 && weight[d][k] != 0;
      w *= weight[d][k];
      offset += place[d][k] * a.steps[d];
    }
    if (!inside) continue;
#pragma unroll
    for (int k = 0; k < Channels; ++k)
      if (channel + k < a.channels) sum[k] += w * widened<double>(a.x[offset + k * a.plane]);
  }
#pragma unroll
  for (int k = 0; k < Channels; ++k)
    if (channel + k < a.channels) a.y[(image + k) * a.places + o] = narrowed<T>(sum[k]);
}
