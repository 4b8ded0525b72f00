// Convolution by multiply-adds, for every geometry that no faster kernel takes.
//
//   sum[n, m, o] = sum over taps k and channels c of x[n, group(m) * C + c, at(o, k)] * w[m, c, k]
//   y[n, m, o]   = Epilogue(sum[n, m, o], operands at [n, m, o])
//
//   at(o, k)     o * stride + k * dilation - pad, divided by the segment's upsampling
//   transposed   (o + pad - k * dilation) / stride, where that is an integer
//
//   x    one or several segments, [N, Ci, D, H, W] of any strides, concatenated along their channels
//   w    [M, C, KD, KH, KW] of any strides; packed [k, C, M], so that vec output channels are one access
//
// A thread computes `pixels` outputs by `vec` neighbouring channels; its outputs lie as far apart as the block has threads along
// the outputs. Taps outside of the image count as zero. Sums are of type Epilogue::Sum; where that is i32, the zero point is
// subtracted from x. Images of fewer than three spatial axes have axes of extent 1 in front.
//
// Launch: (blocks of rows, blocks of columns).
#pragma once

#include "common/convert.cuh"
#include "kernels/conv/direct.h"
#include "kernels/pointwise/epilogue.h"

template <DirectConfig Config, class X, class W, int Segments, class Sum> struct DirectSums {
  using Args = DirectArgs<X, W, Segments>;
  static constexpr int pixels = Config.pixels, vec = Config.vec;

  Sum sum[pixels][vec] = {};                                                                      // (pixels, vec)
  int place[pixels][4];         // n, then d, h, w of the first tap's place
  bool inside[pixels];          // of the output

  /// Sets the places of these rows.
  __device__ __forceinline__ void locate(const Args& g, const u32 (&rows)[pixels]) {
#pragma unroll
    for (int p = 0; p < pixels; ++p) {
      inside[p] = rows[p] < g.rows;
      u32 rest = inside[p] ? rows[p] : 0;
#pragma unroll
      for (int a = 0; a < 3; ++a) {
        const u32 quotient = g.extents[a].quotient(rest);
        const int o = rest - quotient * g.extents[a].divisor;
        place[p][3 - a] = Config.transposed ? o + g.pad[2 - a] : o * g.stride[2 - a] - g.pad[2 - a];
        rest = quotient;
      }
      place[p][0] = rest;
    }
  }

  /// Sets `at` to the pixel that tap k reads along an axis; false where it reads none.
  static __device__ __forceinline__ bool meets(const Args& g, int axis, int first, int k, int& at) {
    if constexpr (Config.transposed) {
      const int t = first - k * g.dilation[axis];
      at = t / g.stride[axis];
      return t >= 0 && at * g.stride[axis] == t && at < g.in[axis];
    } else {
      at = first + k * g.dilation[axis];
      return at >= 0 && at < g.in[axis];
    }
  }

  /// Adds the products of a segment, which is upsampled Up times.
  template <int Up> __device__ __forceinline__ void add(const DirectSegment<X>& s, const Args& g, u32 column) {
    const u32 group = g.group.quotient(column);
    const W* w = g.w + group * g.w_group + i64(column - group * g.group.divisor) * vec * g.w_m + s.first * g.w_c;   // (k, C, vec)
    const X* x = s.x + group * g.group_channels * s.from[1];                                      // [N, C, D, H, W]
#pragma unroll 1
    for (int kd = 0; kd < g.taps[0]; ++kd)
#pragma unroll 1
      for (int kh = 0; kh < g.taps[1]; ++kh)
#pragma unroll 1
        for (int kw = 0; kw < g.taps[2]; ++kw) {
          const W* weight = w + ((kd * g.taps[1] + kh) * g.taps[2] + kw) * g.w_tap;               // (C, vec)
          int from[pixels];
          bool meet[pixels], any = false;
#pragma unroll
          for (int p = 0; p < pixels; ++p) {
            int d, h, v;
            const bool in_d = meets(g, 0, place[p][1], kd, d), in_h = meets(g, 1, place[p][2], kh, h);
            meet[p] = meets(g, 2, place[p][3], kw, v) && in_d && in_h && inside[p];
            from[p] = place[p][0] * s.from[0] + d / Up * s.from[2] + h / Up * s.from[3] + v / Up * s.from[4];
            any = any || meet[p];
          }
          if (!any) continue;
#pragma unroll pixels > 1 ? 1 : 4
          for (int c = 0; c < s.channels; ++c) {
            Sum b[vec];                                                                           // (vec)
            if constexpr (vec > 1) {
              const Vector<W, vec> packed = *reinterpret_cast<const Vector<W, vec>*>(weight + c * g.w_c);
#pragma unroll
              for (int e = 0; e < vec; ++e) b[e] = widened<Sum>(packed.at[e]);
            } else {
              b[0] = widened<Sum>(weight[c * g.w_c]);
            }
#pragma unroll
            for (int p = 0; p < pixels; ++p) {
              Sum a = 0;
              if (meet[p]) a = widened<Sum>(x[from[p] + c * s.from[1]]);
              if constexpr (is_same_type<Sum, i32>) a -= meet[p] ? g.zero : 0;
#pragma unroll
              for (int e = 0; e < vec; ++e) sum[p][e] += a * b[e];
            }
          }
        }
  }

  /// Adds the products of all segments.
  template <int... Ups> __device__ __forceinline__ void add_all(const Args& g, u32 column) {
    int segment = 0;
    (add<Ups>(g.segments[segment++], g, column), ...);
  }
};

/// Ups: each segment's upsampling.
template <DirectConfig Config, int... Ups, class X, class W, int Segments, class Epilogue>
__device__ __forceinline__ void direct_conv(const WithEpilogue<DirectArgs<X, W, Segments>, Epilogue>& a) {
  static_assert(sizeof...(Ups) == Segments);
  const DirectArgs<X, W, Segments>& g = a.args;
  const Epilogue& epilogue = a.epilogue;
  constexpr u32 lanes = Config.lanes, others = Config.threads / lanes;
  constexpr int pixels = Config.pixels, vec = Config.vec;
  const u32 lane = threadIdx.x % lanes, other = threadIdx.x / lanes;
  const u32 column = Config.channels_last ? blockIdx.y * lanes + lane : blockIdx.y * others + other;
  if (column >= g.columns) return;
  u32 rows[pixels];
#pragma unroll
  for (int p = 0; p < pixels; ++p)
    rows[p] = Config.channels_last ? (blockIdx.x * pixels + p) * others + other : (blockIdx.x * pixels + p) * lanes + lane;
  DirectSums<Config, X, W, Segments, typename Epilogue::Sum> sums;                                // (pixels, vec)
  sums.locate(g, rows);
  sums.template add_all<Ups...>(g, column);
#pragma unroll
  for (int p = 0; p < pixels; ++p)
    if (sums.inside[p]) epilogue.apply(epilogue.start(0), rows[p], column * vec, vec, sums.sum[p]);
}
