// Convolution by multiply-adds, any geometry: what no faster kernel takes.
//
//   sum[n, m, o] = sum over taps k and channels c of x[n, group(m) * C + c, at(o, k)] * w[m, c, k]
//
//   at(o, k)     o * stride + k * dilation - pad, divided by the segment's upsampling
//   transposed   (o + pad - k * dilation) / stride, where that is whole
//
//   x    one or several segments, [N, Ci, D, H, W] of any strides; channels of a group one behind the other over the segments
//   w    any strides; packed [k, C, M], so that Vec output channels are one access
//
// A thread makes Pixels outputs, a block's threads apart, by Vec neighbouring channels. Taps outside of the image count as zero.
// Accumulates in Sum; where that is i32, x is less its zero point. Images of fewer axes have extents of 1 in front.
#pragma once

#include "common/convert.cuh"
#include "common/divide.cuh"

struct DirectSegment {
  i32 from[5];                  // strides along N, C, D, H, W
  i32 channels, first;          // of a group; the weights' channel that its first one meets
};

struct DirectGeometry {
  u32 rows;                     // N * D * H * W of the output
  u32 columns;                  // M / Vec
  Divider extents[3];           // of the output: W, H, D
  Divider group;                // of the columns: columns to a group
  i32 group_channels, zero;     // zero: of integers
  i32 in[3], stride[3], pad[3], dilation[3], taps[3];                       // in: after upsampling
  i64 w_group, w_m, w_c, w_tap;
};

template <class X, class W, class Sum, bool Transposed, int Pixels, int Vec> struct Direct {
  Sum sum[Pixels][Vec] = {};
  int place[Pixels][4];         // n, then d, h, w of the first tap's place
  bool inside[Pixels];

  __device__ __forceinline__ void locate(const DirectGeometry& g, const u32 (&rows)[Pixels]) {
#pragma unroll
    for (int p = 0; p < Pixels; ++p) {
      inside[p] = rows[p] < g.rows;
      u32 rest = inside[p] ? rows[p] : 0;
#pragma unroll
      for (int a = 0; a < 3; ++a) {
        const u32 quotient = g.extents[a].quotient(rest);
        const int o = rest - quotient * g.extents[a].divisor;
        place[p][3 - a] = Transposed ? o + g.pad[2 - a] : o * g.stride[2 - a] - g.pad[2 - a];
        rest = quotient;
      }
      place[p][0] = rest;
    }
  }

  /// Where tap k of an axis meets the image; false where it does not.
  static __device__ __forceinline__ bool meets(const DirectGeometry& g, int axis, int first, int k, int& at) {
    if constexpr (Transposed) {
      const int t = first - k * g.dilation[axis];
      at = t / g.stride[axis];
      return t >= 0 && at * g.stride[axis] == t && at < g.in[axis];
    } else {
      at = first + k * g.dilation[axis];
      return at >= 0 && at < g.in[axis];
    }
  }

  template <int Up>
  __device__ __forceinline__ void add(const X* x, const DirectSegment& s, const W* w, const DirectGeometry& g, u32 column) {
    const u32 group = g.group.quotient(column);
    w += group * g.w_group + i64(column - group * g.group.divisor) * Vec * g.w_m + s.first * g.w_c;
    x += group * g.group_channels * s.from[1];
#pragma unroll 1
    for (int kd = 0; kd < g.taps[0]; ++kd)
#pragma unroll 1
      for (int kh = 0; kh < g.taps[1]; ++kh)
#pragma unroll 1
        for (int kw = 0; kw < g.taps[2]; ++kw) {
          const W* weight = w + ((kd * g.taps[1] + kh) * g.taps[2] + kw) * g.w_tap;
          int from[Pixels];
          bool meet[Pixels], any = false;
#pragma unroll
          for (int p = 0; p < Pixels; ++p) {
            int d, h, v;
            const bool in_d = meets(g, 0, place[p][1], kd, d), in_h = meets(g, 1, place[p][2], kh, h);
            meet[p] = meets(g, 2, place[p][3], kw, v) && in_d && in_h && inside[p];
            from[p] = place[p][0] * s.from[0] + d / Up * s.from[2] + h / Up * s.from[3] + v / Up * s.from[4];
            any = any || meet[p];
          }
          if (!any) continue;
#pragma unroll Pixels > 1 ? 1 : 4
          for (int c = 0; c < s.channels; ++c) {
            Sum b[Vec];
            if constexpr (Vec > 1) {
              const Vector<W, Vec> packed = *reinterpret_cast<const Vector<W, Vec>*>(weight + c * g.w_c);
#pragma unroll
              for (int e = 0; e < Vec; ++e) b[e] = widened<Sum>(packed.at[e]);
            } else {
              b[0] = widened<Sum>(weight[c * g.w_c]);
            }
#pragma unroll
            for (int p = 0; p < Pixels; ++p) {
              Sum a = 0;
              if (meet[p]) a = widened<Sum>(x[from[p] + c * s.from[1]]);
              if constexpr (is_same_type<Sum, i32>) a -= meet[p] ? g.zero : 0;
#pragma unroll
              for (int e = 0; e < Vec; ++e) sum[p][e] += a * b[e];
            }
          }
        }
  }
};
