// Convolution, plain or transposed, in groups of few channels: depthwise ones of any window, with one filter a channel or several, and those of
// ResNeXt and ShuffleNet. Of any geometry, type and layout.
//
//   sum[n, m, o] = sum over the taps k that o meets and the channels c of m's group of x[n, c, at(o, k)] * w[k, c, m]
//   y[n, m, o]   = Epilogue(sum[n, m, o], operands at [n, m, o])
//
//   x    [N, C, D, H, W] of any strides
//   w    [KD, KH, KW, C / group, M]; float where x is of 16 bits; of integers less their zero points
//   at   grouped_begin
//
// A thread computes `pixels` outputs by `vec` neighbouring channels, which are those of `span` whole groups or a part of one; its outputs lie
// as far apart as the block has threads along the outputs. Of a tap it loads its channels of x, `load` at a time, once for all of its
// outputs, and its weights once for all of its pixels. Taps outside of the image count as zero. Sums are of type Epilogue::Sum. Where that
// is i32:
//
//   W = u32    words of four channels' bytes, of w [KD, KH, KW, C / group / 4, M]; an instruction adds four products (dp4a). Sums are of x
//              as it is, with g.zero outside of the image.
//   W = i16    the zero point is subtracted from x.
//
// Launch: (blocks of rows, blocks of columns).
#pragma once

#include "common/convert.cuh"
#include "kernels/conv/grouped.h"
#include "kernels/pointwise/epilogue.h"

template <GroupedConfig C, class X, class W, class Sum> struct GroupedSums {
  using Args = GroupedArgs<X, W>;
  static constexpr int pixels = C.pixels, vec = C.vec, unit = C.words ? 4 : 1;
  static constexpr int depth = C.channels / unit, terms = C.span * C.chunk;                       // of a group; of x, at once
  static_assert(depth * unit == C.channels && depth % C.chunk == 0 && (C.span == 1 || C.chunk == depth));
  static_assert(C.span == 1 ? C.outputs % vec == 0 : vec == C.span * C.outputs);
  static_assert(!C.transposed || (pixels == 1 && !C.words));
  template <bool Words, class T> struct TermOf { using Type = T; };
  template <class T> struct TermOf<true, T> { using Type = u32; };
  using Term = typename TermOf<C.words, Sum>::Type;

  Sum sum[pixels][vec] = {};                                                                      // (pixels, vec)
  bool inside[pixels];          // of the output

  /// The sums of these rows and the outputs from column * vec on.
  __device__ __forceinline__ GroupedSums(const Args& g, const u32 (&rows)[pixels], u32 column) {
    const u32 part = g.parts.quotient(column);                                                    // span groups each
    const X* x = g.x + i64(part) * (C.span * C.channels) * g.from[1];                             // [N, C, D, H, W]
    const W* w = g.w + column * vec;                                                              // (KD, KH, KW, depth, vec)
    int image[pixels], at[pixels][3], tap[3];
#pragma unroll
    for (int p = 0; p < pixels; ++p) {
      inside[p] = rows[p] < g.rows;
      u32 rest = inside[p] ? rows[p] : 0;
#pragma unroll
      for (int a = 2; a >= 0; --a) {
        const u32 quotient = g.extents[2 - a].quotient(rest);
        const GroupedBegin begin = grouped_begin<C.transposed>(g.axes[a], static_cast<i32>(rest - quotient * g.extents[2 - a].divisor));
        tap[a] = begin.tap;
        at[p][a] = begin.at;
        rest = quotient;
      }
      image[p] = static_cast<int>(rest) * g.from[0];
    }
    const int m = g.columns * vec;
#pragma unroll 1
    for (int kd = tap[0], over_d = 0; kd < g.axes[0].taps; kd += g.axes[0].tap_step, over_d += g.axes[0].pixel_step)
#pragma unroll 1
      for (int kh = tap[1], over_h = 0; kh < g.axes[1].taps; kh += g.axes[1].tap_step, over_h += g.axes[1].pixel_step) {
        int line[pixels];                                                                         // of x, under this row of taps
        bool in_line[pixels], any = false;
#pragma unroll
        for (int p = 0; p < pixels; ++p) {
          const int d = at[p][0] + over_d, h = at[p][1] + over_h;
          in_line[p] = inside[p] && d >= 0 && d < g.axes[0].in && h >= 0 && h < g.axes[1].in;
          line[p] = image[p] + d * g.from[2] + h * g.from[3];
          any = any || in_line[p];
        }
        if (!C.words && !any) continue;                                                           // words: zero's products count
        const W* row = w + i64(kd * g.axes[1].taps + kh) * C.taps_w * (depth * m);
        const auto add = [&](int kw, int over_w) {
          int from[pixels];
          bool reads[pixels];
#pragma unroll
          for (int p = 0; p < pixels; ++p) {
            const int v = at[p][2] + over_w;
            reads[p] = in_line[p] && v >= 0 && v < g.axes[2].in;
            from[p] = line[p] + v * g.from[4];
          }
          add_tap(g, x, from, reads, row + kw * (depth * m), m);
        };
        if constexpr (C.transposed) {
#pragma unroll 1
          for (int kw = tap[2], over_w = 0; kw < C.taps_w; kw += g.axes[2].tap_step, over_w += g.axes[2].pixel_step) add(kw, over_w);
        } else {
#pragma unroll (C.unroll)
          for (int kw = 0; kw < C.taps_w; ++kw) add(kw, kw * g.axes[2].pixel_step);
        }
      }
  }

 private:
  /// Adds the products of a tap, whose weights begin at w.
  __device__ __forceinline__ void add_tap(const Args& g, const X* x, const int (&from)[pixels], const bool (&reads)[pixels], const W* w,
                                          int m) {
    constexpr int whole = depth * vec * pixels <= 128 ? depth / C.chunk : 1;                      // of more, loads ahead spill registers
#pragma unroll (whole)
    for (int first = 0; first < depth; first += C.chunk) {
      Term v[pixels][terms];                                                                      // (pixels, span, chunk)
#pragma unroll
      for (int p = 0; p < pixels; ++p) load(g, x + (from[p] + first * unit * g.from[1]), reads[p], v[p]);
#pragma unroll
      for (int c = 0; c < C.chunk; ++c)
#pragma unroll
        for (int e = 0; e < vec; e += C.weights) {
          const Vector<W, C.weights> f = *reinterpret_cast<const Vector<W, C.weights>*>(w + (first + c) * m + e);
#pragma unroll
          for (int i = 0; i < C.weights; ++i)
#pragma unroll
            for (int p = 0; p < pixels; ++p) multiply_add(sum[p][e + i], v[p][(e + i) / C.outputs * C.chunk + c], f.at[i]);
        }
    }
  }
  /// Loads a thread's terms of a pixel.
  static __device__ __forceinline__ void load(const Args& g, const X* from, bool reads, Term (&to)[terms]) {
    if constexpr (C.words && C.load > 0) {
      static_assert(terms % C.load == 0);
#pragma unroll
      for (int t = 0; t < terms; t += C.load) {
        Vector<u32, C.load> v;
#pragma unroll
        for (int i = 0; i < C.load; ++i) v.at[i] = static_cast<u8>(g.zero) * 0x01010101u;
        if (reads) v = *reinterpret_cast<const Vector<u32, C.load>*>(from + 4 * t);
#pragma unroll
        for (int i = 0; i < C.load; ++i) to[t + i] = v.at[i];
      }
    } else if constexpr (C.words) {
#pragma unroll
      for (int t = 0; t < terms; ++t) {
        u32 b[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) b[i] = static_cast<u8>(reads ? static_cast<u8>(from[(4 * t + i) * g.from[1]]) : g.zero);
        to[t] = __byte_perm(__byte_perm(b[0], b[1], 0x0040), __byte_perm(b[2], b[3], 0x0040), 0x5410);
      }
    } else {
      static_assert(terms % C.load == 0);
#pragma unroll
      for (int t = 0; t < terms; t += C.load) {
        Vector<X, C.load> v{};
        if (reads) v = *reinterpret_cast<const Vector<X, C.load>*>(from + t * (C.load > 1 ? 1 : g.from[1]));
#pragma unroll
        for (int i = 0; i < C.load; ++i) {
          to[t + i] = widened<Sum>(v.at[i]);
          if constexpr (is_same_type<Sum, i32>) to[t + i] -= reads ? g.zero : 0;
        }
      }
    }
  }
  static __device__ __forceinline__ void multiply_add(Sum& sum, Term x, W w) {
    if constexpr (C.words && is_same_type<X, u8>) sum = ptx::dp4a_u32_s32(x, w, sum);
    else if constexpr (C.words) sum = ptx::dp4a_s32_s32(x, w, sum);
    else sum += x * widened<Sum>(w);
  }
};

template <GroupedConfig C, class X, class W, class Epilogue>
__device__ __forceinline__ void grouped_conv(const WithEpilogue<GroupedArgs<X, W>, Epilogue>& a) {
  const GroupedArgs<X, W>& g = a.args;
  const Epilogue& epilogue = a.epilogue;
  constexpr u32 lanes = C.lanes, others = C.threads / lanes;
  const u32 lane = threadIdx.x % lanes, other = threadIdx.x / lanes;
  const u32 column = C.channels_last ? blockIdx.y * lanes + lane : blockIdx.y * others + other;
  if (column >= g.columns) return;
  u32 rows[C.pixels];
#pragma unroll
  for (int p = 0; p < C.pixels; ++p)
    rows[p] = C.channels_last ? (blockIdx.x * C.pixels + p) * others + other : (blockIdx.x * C.pixels + p) * lanes + lane;
  const GroupedSums<C, X, W, typename Epilogue::Sum> sums(g, rows, column);                       // (pixels, vec)
  constexpr int width = Epilogue::width;
  static_assert(C.vec % width == 0);
#pragma unroll
  for (int p = 0; p < C.pixels; ++p)
    if (sums.inside[p]) {
#pragma unroll
      for (int e = 0; e < C.vec; e += width) {
        typename Epilogue::Sum part[width];
#pragma unroll
        for (int i = 0; i < width; ++i) part[i] = sums.sum[p][e + i];
        epilogue.apply(epilogue.start(0), rows[p], column * C.vec + e, width, part);
      }
    }
}
