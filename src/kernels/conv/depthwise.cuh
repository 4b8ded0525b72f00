// Depthwise convolution of channels-last images: every channel by its own filter.
//
//   sum[n, h, w, c] = sum over taps of x[n, h * stride + kh * dilation - pad, w * …, c] * filter[kh, kw, c]
//   y[n, h, w, c]   = Epilogue(sum[n, h, w, c], operands at [n, h, w, c])
//
//   x         [N, H, W, C] of any strides but 1 along C
//   filter    [KH, KW, C]
//
// A thread computes a chunk: `pixels` neighbours along W by `vec` channels. For each row of taps it reads `reach` input vectors,
// each once. Taps outside of the image count as zero. Sums are of type Epilogue::Sum. Where that is i32, the zero point is
// subtracted from x, and all is done in floats, which hold sums of so few products exactly: they take fewer instructions.
//
// Launch: one thread per chunk.
#pragma once

#include "common/convert.cuh"
#include "common/expr.cuh"
#include "kernels/conv/depthwise.h"
#include "kernels/pointwise/epilogue.h"

/// What products are added in, for sums of type Sum.
template <class Sum> struct DepthwiseTerm { using Type = Sum; };
template <> struct DepthwiseTerm<i32> { using Type = float; };

template <class X, class W, DepthwiseConfig Config, class Sum> struct DepthwiseSums {
  static constexpr bool bytes = sizeof(X) == 1;
  static_assert(!bytes || (is_same_type<W, float> && is_same_type<Sum, float>));
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
    if constexpr (bytes)
      for (int e = 0; e < vec; ++e) outside.at[e] = static_cast<X>(g.zero);
    const float zero = static_cast<float>(g.zero);
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
        Vector<X, vec> v;                                                                         // (vec)
        const X* const from = line + w * g.from[2];
        const bool reads = inside && w >= 0 && w < g.width;
        if constexpr (bytes) words_of(v) = reads ? *reinterpret_cast<const WordsOf<Vector<X, vec>>*>(from) : words_of(outside);
        else v = reads ? *reinterpret_cast<const Vector<X, vec>*>(from) : outside;
        Sum x[vec];
#pragma unroll
        for (int e = 0; e < vec; ++e) x[e] = less_zero(v, e, zero);
#pragma unroll
        for (int p = 0; p < pixels; ++p) {
          const int tap = i - p * stride;                                   // a constant once the loops are unrolled
          if (tap < 0 || tap % dilation != 0 || tap / dilation >= taps_w) continue;
#pragma unroll
          for (int e = 0; e < vec; ++e) add(sum[p][e], x[e], f[tap / dilation].at[e]);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ Sum less_zero(const Vector<X, vec>& v, int e, float zero) {
    if constexpr (bytes && vec % 4 == 0)
      return smelt_expr::float_of_byte(smelt_expr::ByteOf<X>{words_of(v).at[e / 4], static_cast<u32>(e % 4)}, zero);
    else if constexpr (bytes) return smelt_expr::float_of_byte(v.at[e], zero);
    else return widened<Sum>(v.at[e]);
  }
  static __device__ __forceinline__ void add(Sum& sum, Sum x, W weight) {
    if constexpr (bytes) sum = fmaf(x, weight, sum);                        // compiled without contractions
    else sum += x * widened<Sum>(weight);
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
  using Sum = typename Epilogue::Sum;
  DepthwiseSums<X, W, Config, typename DepthwiseTerm<Sum>::Type> conv;
  conv.add(g, chunk);
#pragma unroll
  for (u32 p = 0; p < Config.pixels; ++p)
    if (conv.first + p < g.out_width) {
      Sum sums[Config.vec];
#pragma unroll
      for (int e = 0; e < Config.vec; ++e) sums[e] = static_cast<Sum>(conv.sum[p][e]);
      epilogue.apply(epilogue.start(0), conv.row * g.out_width + conv.first + p, conv.column, Config.vec, sums);
    }
}
