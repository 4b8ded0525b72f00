// Depthwise convolution of channels-last images and volumes: every channel by its own filter.
//
//   sum[n, h, w, c] = sum over taps of x[n, h * stride + kh * dilation - pad, w * …, c] * filter[kh, kw, c]
//   y[n, h, w, c]   = Epilogue(sum[n, h, w, c], operands at [n, h, w, c])
//
//   x         [N, H, W, C] of any strides but 1 along C
//   filter    [KH, KW, C]
//
// Of volumes, x [N, D, H, W, C] by filter [KD, KH, KW, C], the same for each plane under the taps along D, one after the other.
//
// A thread computes a chunk: `pixels` neighbours along W by `vec` channels. For each row of taps it reads `reach` input vectors,
// each once. Taps outside of the image count as zero. Sums are of type Epilogue::Sum. Where that is i32:
//
//   W = u32    filter is [(KD,) KH / 4, KW, C], each a word of the taps of four rows (depthwise_byte). The bytes of as many rows of x
//              become a word of each channel, and an instruction adds four products (dp4a). Sums are of x as it is, with g.zero
//              outside of the image.
//   W = float  weights of 9 bits, or channels that are no multiple of 4: the zero point is subtracted from x, and products are
//              added in floats, which hold sums of so few of them exactly.
//
// Launch: one thread per chunk.
#pragma once

#include "common/convert.cuh"
#include "common/expr.cuh"
#include "kernels/conv/depthwise.h"
#include "kernels/pointwise/epilogue.h"

/// What products of weights of type W are added in, for sums of type Sum.
template <class W, class Sum> struct DepthwiseTerm { using Type = Sum; };
template <> struct DepthwiseTerm<float, i32> { using Type = float; };

/// Where a chunk lies, and which of its input vectors have a tap.
template <DepthwiseConfig Config> struct DepthwiseChunk {
  static constexpr int taps_h = Config.taps_h, taps_w = Config.taps_w, stride = Config.stride_w, dilation = Config.dilation_w;
  static constexpr int pixels = Config.pixels, vec = Config.vec;
  static constexpr int reach = (pixels - 1) * stride + (taps_w - 1) * dilation + 1;               // input vectors of a row
  static constexpr bool volume = Config.taps_d > 0;

  u32 column, row, first;       // channel, (n, h) or (n, d, h) of the output, w of the first pixel
  u32 n;
  int front = 0, top, left;     // d, h and w of its first input vector, which may lie outside
  int channels;                 // of the image

  template <class Args> __device__ __forceinline__ DepthwiseChunk(const Args& g, u32 chunk) {
    const u32 rest = g.columns.quotient(chunk);
    column = (chunk - rest * g.columns.divisor) * vec;
    row = g.groups.quotient(rest);
    first = (rest - row * g.groups.divisor) * pixels;
    const u32 plane = g.rows.quotient(row);
    n = plane;
    if constexpr (volume) {
      n = g.depth.quotient(plane);
      front = int(plane - n * g.depth.divisor) * g.stride_d - g.pad_d;
    }
    top = int(row - plane * g.rows.divisor) * g.stride - g.pad_h;
    left = int(first) * stride - g.pad_w;
    channels = g.columns.divisor * vec;
  }
  /// Calls f(plane of the image, that of the filter, whether it lies inside) for each tap along the depth. A filter's plane has so many
  /// rows.
  template <class Args, class X, class W, class F>
  __device__ __forceinline__ void each_plane(const Args& g, const X* image, const W* filter, int rows, F&& f) const {
    if constexpr (volume) {
      constexpr int together = Config.taps_d * taps_h * taps_w <= 32 ? Config.taps_d : 1;         // their loads are on their way at once
#pragma unroll (together)
      for (int kd = 0; kd < Config.taps_d; ++kd) {
        const int d = front + kd * g.dilation_d;
        f(image + d * g.plane, filter + kd * rows * taps_w * channels, d >= 0 && d < g.in_depth);
      }
    } else {
      f(image, filter, true);
    }
  }
  /// The tap along W that pixel p has on vector i of a row, or none: -1. A constant once loops are unrolled.
  static __device__ constexpr int tap(int i, int p) {
    const int from = i - p * stride;
    return from >= 0 && from % dilation == 0 && from / dilation < taps_w ? from / dilation : -1;
  }
  /// Whether any pixel of the chunk has a tap on vector i of a row.
  static __device__ constexpr bool used(int i) {
    for (int p = 0; p < pixels; ++p)
      if (tap(i, p) >= 0) return true;
    return false;
  }
};

template <class X, class W, DepthwiseConfig Config, class Sum> struct DepthwiseSums : DepthwiseChunk<Config> {
  using Chunk = DepthwiseChunk<Config>;
  static constexpr bool bytes = sizeof(X) == 1;
  static_assert(!bytes || (is_same_type<W, float> && is_same_type<Sum, float>));
  static constexpr int pixels = Config.pixels, vec = Config.vec, taps_h = Config.taps_h, taps_w = Config.taps_w;

  Sum sum[pixels][vec] = {};                                                                      // (pixels, vec)

  /// Adds all taps of a chunk.
  __device__ __forceinline__ DepthwiseSums(const DepthwiseArgs<X, W>& g, u32 chunk) : Chunk(g, chunk) {
    this->each_plane(g, g.x + this->n * g.from[0] + this->column, g.filter + this->column, taps_h,
                     [&](const X* image, const W* filter, bool inside) { plane(g, image, filter, inside); });
  }

 private:
  /// Adds the taps of a plane.
  __device__ __forceinline__ void plane(const DepthwiseArgs<X, W>& g, const X* image, const W* filter, bool in_volume) {
    Vector<X, vec> outside{};
    if constexpr (bytes)
      for (int e = 0; e < vec; ++e) outside.at[e] = static_cast<X>(g.zero);
    const float zero = static_cast<float>(g.zero);
#pragma unroll
    for (int kh = 0; kh < taps_h; ++kh) {
      const int h = this->top + kh * g.dilation;
      const bool inside = in_volume && h >= 0 && h < g.height;
      const X* line = image + h * g.from[1];                                                      // (W, vec)
      Vector<W, vec> f[taps_w];                                                                   // (KW, vec)
#pragma unroll
      for (int kw = 0; kw < taps_w; ++kw)
        f[kw] = *reinterpret_cast<const Vector<W, vec>*>(filter + (kh * taps_w + kw) * this->channels);
#pragma unroll
      for (int i = 0; i < Chunk::reach; ++i) {
        if (!Chunk::used(i)) continue;
        const int w = this->left + i;
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
          const int tap = Chunk::tap(i, p);
          if (tap < 0) continue;
#pragma unroll
          for (int e = 0; e < vec; ++e) add(sum[p][e], x[e], f[tap].at[e]);
        }
      }
    }
  }
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
};

template <class X, DepthwiseConfig Config, class Sum> struct DepthwiseSums<X, u32, Config, Sum> : DepthwiseChunk<Config> {
  using Chunk = DepthwiseChunk<Config>;
  static_assert(sizeof(X) == 1 && Config.vec % 4 == 0 && is_same_type<Sum, i32>);
  static constexpr int pixels = Config.pixels, vec = Config.vec, taps_h = Config.taps_h, taps_w = Config.taps_w;
  using Bytes = Vector<u32, vec / 4>;                                                             // (vec) of one pixel

  Sum sum[pixels][vec] = {};                                                                      // (pixels, vec)

  /// Adds all taps of a chunk.
  __device__ __forceinline__ DepthwiseSums(const DepthwiseArgs<X, u32>& g, u32 chunk) : Chunk(g, chunk) {
    this->each_plane(g, g.x + this->n * g.from[0] + this->column, g.filter + this->column, (taps_h + 3) / 4,
                     [&](const X* image, const u32* filter, bool inside) { rows<0>(g, image, filter, inside); });
  }

 private:
  /// Adds taps `from` and up to three more along H of a plane, and those behind them.
  template <int from>
  __device__ __forceinline__ void rows(const DepthwiseArgs<X, u32>& g, const X* image, const u32* filter, bool inside) {
    constexpr int count = taps_h - from < 4 ? taps_h - from : 4;
    const u32 outside = static_cast<u8>(g.zero) * 0x01010101u;
    Vector<u32, vec> f[taps_w];                                                                   // (KW, vec)
#pragma unroll
    for (int kw = 0; kw < taps_w; ++kw)
      f[kw] = *reinterpret_cast<const Vector<u32, vec>*>(filter + (from / 4 * taps_w + kw) * this->channels);
#pragma unroll
    for (int i = 0; i < Chunk::reach; ++i) {
      if (!Chunk::used(i)) continue;
      const int w = this->left + i;
      const bool in_line = inside && w >= 0 && w < g.width;
      Bytes v[count];                                                                             // (KH, vec)
#pragma unroll
      for (int k = 0; k < count; ++k) {
        const int h = this->top + (from + k) * g.dilation;
        const X* const at = image + h * g.from[1] + w * g.from[2];
#pragma unroll
        for (int q = 0; q < vec / 4; ++q) v[k].at[q] = outside;
        if (in_line && h >= 0 && h < g.height) v[k] = *reinterpret_cast<const Bytes*>(at);
      }
#pragma unroll
      for (int q = 0; q < vec / 4; ++q) {
        u32 x[4];
        gather<count>(v, q, x);
#pragma unroll
        for (int p = 0; p < pixels; ++p) {
          const int tap = Chunk::tap(i, p);
          if (tap < 0) continue;
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            Sum& s = sum[p][q * 4 + e];
            if constexpr (is_same_type<X, u8>) s = ptx::dp4a_u32_s32(x[e], f[tap].at[q * 4 + e], s);
            else s = ptx::dp4a_s32_s32(x[e], f[tap].at[q * 4 + e], s);
          }
        }
      }
    }
    if constexpr (from + count < taps_h) rows<from + count>(g, image, filter, inside);
  }
  /// Of four channels, words with the bytes of `count` rows side by side. Bytes beyond them are what they are: their weights are 0.
  template <int count> static __device__ __forceinline__ void gather(const Bytes (&v)[count], int q, u32 (&x)[4]) {
    if constexpr (count == 1) {
#pragma unroll
      for (int e = 0; e < 4; ++e) x[e] = v[0].at[q];
    } else {
      const u32 low = __byte_perm(v[0].at[q], v[1].at[q], 0x5140), high = __byte_perm(v[0].at[q], v[1].at[q], 0x7362);
      if constexpr (count == 2) x[0] = x[1] = low, x[2] = x[3] = high;
      else if constexpr (count == 3) {
        x[0] = __byte_perm(low, v[2].at[q], 0x4410);
        x[1] = __byte_perm(low, v[2].at[q], 0x5532);
        x[2] = __byte_perm(high, v[2].at[q], 0x6610);
        x[3] = __byte_perm(high, v[2].at[q], 0x7732);
      } else {
        const u32 low2 = __byte_perm(v[2].at[q], v[3].at[q], 0x5140), high2 = __byte_perm(v[2].at[q], v[3].at[q], 0x7362);
        x[0] = __byte_perm(low, low2, 0x5410);
        x[1] = __byte_perm(low, low2, 0x7632);
        x[2] = __byte_perm(high, high2, 0x5410);
        x[3] = __byte_perm(high, high2, 0x7632);
      }
    }
  }
};

template <DepthwiseConfig Config, class X, class W, class Epilogue>
__device__ __forceinline__ void depthwise_conv(const WithEpilogue<DepthwiseArgs<X, W>, Epilogue>& a) {
  const DepthwiseArgs<X, W>& g = a.args;
  const Epilogue& epilogue = a.epilogue;
  const u32 chunk = blockIdx.x * Config.threads + threadIdx.x;
  if (chunk >= g.chunks) return;
  using Sum = typename Epilogue::Sum;
  const DepthwiseSums<X, W, Config, typename DepthwiseTerm<W, Sum>::Type> conv(g, chunk);
#pragma unroll
  for (u32 p = 0; p < Config.pixels; ++p)
    if (conv.first + p < g.out_width) {
      Sum sums[Config.vec];
#pragma unroll
      for (int e = 0; e < Config.vec; ++e) sums[e] = static_cast<Sum>(conv.sum[p][e]);
      epilogue.apply(epilogue.start(0), conv.row * g.out_width + conv.first + p, conv.column, Config.vec, sums);
    }
}
