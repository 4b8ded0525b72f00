// Depthwise convolution of channels-last images: every channel by its own filter.
//
//   sum[n, h, w, c] = sum over taps of x[n, h * stride + kh * dilation - pad, w * …, c] * filter[kh, kw, c]
//
//   x         [N, H, W, C] of any strides but 1 along C
//   filter    [KH, KW, C]
//
// A thread makes Pixels neighbours along W by Vec channels: a row of (Pixels - 1) * Stride + (KW - 1) * Dilation + 1 input
// vectors is read once for all of its taps. Taps outside of the image count as zero. Accumulates in Sum; where that is i32, x is
// less its zero point.
#pragma once

#include "common/convert.cuh"
#include "common/divide.cuh"

struct DepthwiseGeometry {
  u32 chunks;                   // threads with something to do
  Divider columns, groups, rows;                                            // C / Vec; groups of Pixels along W; H
  i32 height, width, out_width;
  i32 stride, pad_h, pad_w, dilation;                                       // stride and dilation along H
  i32 zero;                     // of integers
  i64 from[3];                  // strides of x along N, H, W
};

template <class X, class W, class Sum, int KH, int KW, int Stride, int Dilation, int Pixels, int Vec> struct Depthwise {
  Sum sum[Pixels][Vec] = {};
  u32 column, row, first;       // channel, (n, h) of the output, w of the first pixel

  __device__ __forceinline__ void run(const X* x, const W* filter, const DepthwiseGeometry& g, u32 chunk) {
    const u32 rest = g.columns.quotient(chunk);
    column = (chunk - rest * g.columns.divisor) * Vec;
    row = g.groups.quotient(rest);
    first = (rest - row * g.groups.divisor) * Pixels;
    const u32 n = g.rows.quotient(row);
    const int top = int(row - n * g.rows.divisor) * g.stride - g.pad_h, left = int(first) * Stride - g.pad_w;
    const X* image = x + n * g.from[0] + column;
    const int channels = g.columns.divisor * Vec;
    constexpr int reach = (Pixels - 1) * Stride + (KW - 1) * Dilation + 1;
    Vector<X, Vec> outside{};
    if constexpr (is_same_type<Sum, i32>)
      for (int e = 0; e < Vec; ++e) outside.at[e] = static_cast<X>(g.zero);
#pragma unroll
    for (int kh = 0; kh < KH; ++kh) {
      const int h = top + kh * g.dilation;
      const bool inside = h >= 0 && h < g.height;
      const X* line = image + h * g.from[1];
      Vector<W, Vec> f[KW];
#pragma unroll
      for (int kw = 0; kw < KW; ++kw)
        f[kw] = *reinterpret_cast<const Vector<W, Vec>*>(filter + (kh * KW + kw) * channels + column);
#pragma unroll
      for (int i = 0; i < reach; ++i) {
        if (!used(i)) continue;
        const int w = left + i;
        const Vector<X, Vec> v =
            inside && w >= 0 && w < g.width ? *reinterpret_cast<const Vector<X, Vec>*>(line + w * g.from[2]) : outside;
#pragma unroll
        for (int p = 0; p < Pixels; ++p) {
          const int tap = i - p * Stride;                                   // known when compiled
          if (tap < 0 || tap % Dilation != 0 || tap / Dilation >= KW) continue;
#pragma unroll
          for (int e = 0; e < Vec; ++e) sum[p][e] += less_zero(v.at[e], g.zero) * widened<Sum>(f[tap / Dilation].at[e]);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ Sum less_zero(X v, i32 zero) {
    if constexpr (is_same_type<Sum, i32>) return static_cast<i32>(v) - zero;
    else return widened<Sum>(v);
  }
  /// Whether any pixel's window has a tap on the i-th vector of a row.
  static __device__ constexpr bool used(int i) {
    for (int p = 0; p < Pixels; ++p)
      if (i >= p * Stride && (i - p * Stride) % Dilation == 0 && (i - p * Stride) / Dilation < KW) return true;
    return false;
  }
};
