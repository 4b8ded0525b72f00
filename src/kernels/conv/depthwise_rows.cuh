// Depthwise convolution of plain images, of volumes and of sequences, whose rows are contiguous: every channel by its own filters.
//
//   sum[n, m, h, w] = sum over taps of x[n, m / multiplier, h * stride + kh * dilation - pad, w * …] * filter[m, kh, kw]
//   y[n, m, h, w]   = Epilogue(sum[n, m, h, w], operands at [n, m, h, w])
//
//   x         [N, C, H, W] of any strides but 1 along W; a sequence [N, C, L] has one row
//   filter    [M, KH, KW]
//
// Of volumes, x [N, C, D, H, W] by filter [M, KD, KH, KW], the same for each plane under the taps along D, one after the other.
//
// A warp computes a tile: 32 * pixels neighbours of one output row. For each row of taps it copies the input row under the tile
// to its part of shared memory; each thread loads the window of its pixels from there, `pixels` elements at a time. The sums go
// back through the same memory, so that a warp writes neighbouring elements. Taps outside of the image count as zero. Sums are
// of type Epilogue::Sum; where that is i32, the zero point is subtracted from x.
//
// Launch: one warp per tile, `warps` warps per block.
#pragma once

#include "common/convert.cuh"
#include "kernels/conv/depthwise_rows.h"
#include "kernels/pointwise/epilogue.h"

template <class X, class W, DepthwiseRowsConfig Config, class Sum> struct DepthwiseRow {
  static constexpr int taps_h = Config.taps_h, taps_w = Config.taps_w, stride = Config.stride_w, dilation = Config.dilation_w;
  static constexpr int pixels = Config.pixels, tile = 32 * pixels;
  static constexpr int window = (pixels - 1) * stride + (taps_w - 1) * dilation + 1;              // input elements of a thread
  static constexpr int loads = (window + pixels - 1) / pixels;                                    // of a window
  static constexpr int span = (31 * stride + loads) * pixels;                                     // input elements of a tile
  static_assert(span >= tile);
  using Piece = Vector<Sum, pixels>;

  Sum sum[pixels] = {};

  /// Copies the row's elements from `left` on to `staged`; elements outside of the image become zeros.
  static __device__ __forceinline__ void stage(const X* line, int left, bool inside, const DepthwiseRowsArgs<X, W>& g,
                                               Sum* staged) {
#pragma unroll 4
    for (int i = threadIdx.x % 32; i < span; i += 32) {
      const int w = left + i;
      Sum v = 0;
      if (inside && w >= 0 && w < g.width) {
        v = widened<Sum>(line[w]);
        if constexpr (is_same_type<Sum, i32>) v -= g.zero;
      }
      staged[i] = v;                                                                              // (span)
    }
  }

  /// Adds the products of a staged row and a row of taps.
  __device__ __forceinline__ void add(const Sum* staged, const W* filter) {
    Sum v[loads * pixels];                                                                        // (window)
    const Piece* pieces = reinterpret_cast<const Piece*>(staged) + (threadIdx.x % 32) * stride;
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      const Piece piece = pieces[i];
#pragma unroll
      for (int e = 0; e < pixels; ++e) v[i * pixels + e] = piece.at[e];
    }
#pragma unroll
    for (int kw = 0; kw < taps_w; ++kw) {
      const Sum tap = widened<Sum>(filter[kw]);
#pragma unroll
      for (int p = 0; p < pixels; ++p) sum[p] += v[p * stride + kw * dilation] * tap;
    }
  }
};

template <DepthwiseRowsConfig Config, class X, class W, class Epilogue>
__device__ __forceinline__ void depthwise_rows_conv(const WithEpilogue<DepthwiseRowsArgs<X, W>, Epilogue>& a) {
  const DepthwiseRowsArgs<X, W>& g = a.args;
  const Epilogue& epilogue = a.epilogue;
  using Sum = typename Epilogue::Sum;
  using Row = DepthwiseRow<X, W, Config, Sum>;
  __shared__ __align__(16) Sum memory[Config.warps][Row::span];                                   // (warps, span)
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, unit = blockIdx.x * Config.warps + warp;
  if (unit >= g.units) return;
  Sum* staged = memory[warp];
  const u32 line = g.tiles.quotient(unit), first = (unit - line * g.tiles.divisor) * Row::tile;   // (n, m, h) or (n, m, d, h); w
  const u32 planes = g.rows.quotient(line), h = line - planes * g.rows.divisor;                   // (n, m) or (n, m, d)
  constexpr bool volume = Config.taps_d > 0;
  u32 filters = planes, d = 0;                                                                    // (n, m)
  if constexpr (volume) {
    filters = g.depth.quotient(planes);
    d = planes - filters * g.depth.divisor;
  }
  const u32 n = g.outputs.quotient(filters), m = filters - n * g.outputs.divisor;
  const X* image = g.x + n * g.from[0] + g.multiplier.quotient(m) * g.from[1];                    // ((D,) H, W)
  constexpr int plane_taps = Row::taps_h * Row::taps_w;
  const W* filter = g.filter + i64(m) * ((volume ? Config.taps_d : 1) * plane_taps);              // ((KD,) KH, KW)
  const int top = int(h) * g.stride - g.pad_h, left = int(first) * Row::stride - g.pad_w;

  Row row;
  const auto add_plane = [&](const X* plane, const W* taps) {
#pragma unroll 1
    for (int kh = 0; kh < Row::taps_h; ++kh) {
      const int at = top + kh * g.dilation;
      Row::stage(plane + at * g.from[2], left, at >= 0 && at < g.height, g, staged);
      __syncwarp();
      row.add(staged, taps + kh * Row::taps_w);
      __syncwarp();
    }
  };
  if constexpr (volume) {
#pragma unroll 1
    for (int kd = 0; kd < Config.taps_d; ++kd) {
      const int at = int(d) * g.stride_d - g.pad_d + kd * g.dilation_d;
      if (at >= 0 && at < g.in_depth) add_plane(image + at * g.plane, filter + kd * plane_taps);
    }
  } else {
    add_plane(image, filter);
  }

  typename Row::Piece sums;
#pragma unroll
  for (int p = 0; p < Config.pixels; ++p) sums.at[p] = row.sum[p];
  reinterpret_cast<typename Row::Piece*>(staged)[lane] = sums;
  __syncwarp();
#pragma unroll
  for (u32 p = 0; p < Config.pixels; ++p) {
    const u32 w = first + p * 32 + lane;
    const Sum one[1] = {staged[p * 32 + lane]};
    const u32 plane = volume ? n * g.depth.divisor + d : n;
    if (w < g.out_width) epilogue.apply(epilogue.start(0), (plane * g.rows.divisor + h) * g.out_width + w, m, 1, one);
  }
}
