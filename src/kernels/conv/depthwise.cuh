// Depthwise convolution of channels-last images: every channel by its own filter.
//
//   sum[n, h, w, c] = sum over taps of x[n, h * stride + kh * dilation - pad, w * …, c] * filter[kh, kw, c]
//   y[n, h, w, c]   = Epilogue(sum[n, h, w, c], operands at [n, h, w, c])
//
//   x         [N, H, W, C] of any strides but 1 along C
//   filter    [KH, KW, C]
//
// A thread computes a chunk: `pixels` neighbours along W by `vec` channels. For each row of taps it reads `reach` input vectors,
// each once. Taps outside of the image count as zero. Sums are of type Epilogue::Sum; where that is i32, the zero point is
// subtracted from x.
//
// Launch: one thread per chunk.
#pragma once

#include "common/convert.cuh"
#include "kernels/conv/depthwise.h"
#include "kernels/pointwise/epilogue.h"

template <class X, class W, DepthwiseConfig Config, class Sum> struct DepthwiseSums {
  static constexpr int taps_h = Config.taps_h, taps_w = Config.taps_w, stride = Config.stride_w, dilation = Config.dilation_w;
  static constexpr int pixels = Config.pixels, vec = Config.vec;
  static constexpr int reach = (pixels - 1) * stride + (taps_w - 1) * dilation + 1;               // input vectors of a row

  Sum sum[pixels][vec] = {};                                                                      // (pixels, vec)
  u32 column, row, first;       // channel, (n, h) of the output, w of the first pixel

  /// Adds all taps of a chunk.
  __device__ __forceinline__ void add(const DepthwiseArgs<X, W>& g, u32 chunk) {
    const u32 rest = g.columns.quotient(chunk);
    column = (chunk - rest * g.columns.divisor) * vec;
    row = g.groups.quotient(rest);
    first = (rest - row * g.groups.divisor) * pixels;
    const u32 n = g.rows.quotient(row);
    const int top = int(row - n * g.rows.divisor) * g.stride - g.pad_h, left = int(first) * stride - g.pad_w;
    const X* image = g.x + n * g.from[0] + column;                                                // (H, W, vec)
    const int channels = g.columns.divisor * vec;
    Vector<X, vec> outside{};
    if constexpr (is_same_type<Sum, i32>)
      for (int e = 0; e < vec; ++e) outside.at[e] = static_cast<X>(g.zero);
#pragma unroll
    for (int kh = 0; kh < taps_h; ++kh) {
      const int h = top + kh * g.dilation;
      const bool inside = h >= 0 && h < g.height;
      const X* line = image + h * g.from[1];                                                      // (W, vec)
      Vector<W, vec> f[taps_w];                                                                   // (KW, vec)
#pragma unroll
      for (int kw = 0; kw < taps_w; ++kw)
        f[kw] = *reinterpret_cast<const Vector<W, vec>*>(g.filter + (kh * taps_w + kw) * channels + column);
#pragma unroll
      for (int i = 0; i < reach; ++i) {
        if (!used(i)) continue;
        const int w = left + i;
        const Vector<X, vec> v =                                                                  // (vec)
            inside && w >= 0 && w < g.width ? *reinterpret_cast<const Vector<X, vec>*>(line + w * g.from[2]) : outside;
#pragma unroll
        for (int p = 0; p < pixels; ++p) {
          const int tap = i - p * stride;                                   // a constant once the loops are unrolled
          if (tap < 0 || tap % dilation != 0 || tap / dilation >= taps_w) continue;
#pragma unroll
          for (int e = 0; e < vec; ++e) sum[p][e] += less_zero(v.at[e], g.zero) * widened<Sum>(f[tap / dilation].at[e]);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ Sum less_zero(X v, i32 zero) {
    if constexpr (is_same_type<Sum, i32>) return static_cast<i32>(v) - zero;
    else return widened<Sum>(v);
  }
  /// Whether any pixel of the chunk has a tap on vector i of a row.
  static __device__ constexpr bool used(int i) {
    for (int p = 0; p < pixels; ++p)
      if (i >= p * stride && (i - p * stride) % dilation == 0 && (i - p * stride) / dilation < taps_w) return true;
    return false;
  }
};

template <DepthwiseConfig Config, class X, class W, class Epilogue>
__device__ __forceinline__ void depthwise_conv(const WithEpilogue<DepthwiseArgs<X, W>, Epilogue>& a) {
  const DepthwiseArgs<X, W>& g = a.args;
  const Epilogue& epilogue = a.epilogue;
  const u32 chunk = blockIdx.x * Config.threads + threadIdx.x;
  if (chunk >= g.chunks) return;
  DepthwiseSums<X, W, Config, typename Epilogue::Sum> conv;
  conv.add(g, chunk);
#pragma unroll
  for (u32 p = 0; p < Config.pixels; ++p)
    if (conv.first + p < g.out_width)
      epilogue.apply(epilogue.start(0), conv.row * g.out_width + conv.first + p, conv.column, Config.vec, conv.sum[p]);
}
