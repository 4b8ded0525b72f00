// Convolution of channels-last images as a product that never writes its left operand (an implicit GEMM):
//
//   y[p, m] = Epilogue(sum over segments, taps and channels of x[pixel(p, tap), channel] · w[m, segment, tap, channel])
//
//   p          (n, oh, ow) of the output, of a volume (n, od, oh, ow), in row-major order: the rows of the product; its columns are
//              the output channels m
//   pixel      h = oh * stride + kh * dilation - pad, d and w likewise, each divided by the segment's upsampling; zero outside of it
//   x          segments [N, H, W, Ci] of any strides, but 1 along the channels; read in turn, as if they were concatenated
//   w          [M, K], packed: K runs over segments, taps, then channels; zeros fill each tap's channels up to whole tiles
//
// A transposed convolution is a batch of such products, one for each phase: every stride-th pixel of the output along each axis, of
// which all have the same taps, and a window that begins at every pixel of x (implicit_first). So is one of several groups, one for each, or
// one for several of few channels side by side: zeros stand in w between one's channels and another's outputs. What is no number times zero
// is none, so a block one of whose sums is no number makes those of its tile anew, of each output's own group alone.
//
// Blocks, tiles and splits of K are those of a matrix product (gemm/tile_loop.cuh); only the left operand's copies differ. The
// pixels under a tap are located once for all of its channels, so that the inner loop has no divisions and one addition per copy.
#pragma once

#include "common/convert.cuh"
#include "gemm/float_tile.cuh"
#include "gemm/tensor_tile.cuh"
#include "gemm/tile_loop.cuh"
#include "kernels/conv/implicit.h"
#include "kernels/pointwise/epilogue.h"

/// Copies the left operand's tiles: TileK channels of the TileM pixels under a tap, Vec channels per copy.
template <class Tile, int Vec, int Segments, bool Volume, ImplicitBatches Batches> struct PixelCopy {
  using T = typename Tile::A;
  using Args = ImplicitArgs<T, typename Tile::Sum, Segments>;
  static constexpr int size = sizeof(T), line_bytes = Tile::tile_k * size;
  using Share = TileThreads<Tile::tile_m, Tile::tile_k / Vec, Tile::threads>;
  static_assert(Share::whole_lines && Share::all_copy);
  static constexpr int each = Share::each;
  static constexpr bool Transposed = Batches == ImplicitBatches::phases;

  const Args& g;
  int image[each], first_h[each], first_w[each];   // of the pixel under the first tap; image is -1 beyond the last row
  int first_d[Volume ? each : 1];
  int at[each];                                    // offset of the pixel under this tap; -Vec (aligned) outside of the image
  int segment = 0, tap_d = 0, tap_h = 0, tap_w = 0, channel = 0;
  int group = 0;                                   // its first channel
  bool lacks_d = false, lacks_h = false, lacks_w = false;  // of a phase: its first tap is none

  static __device__ __forceinline__ int element() { return Share::copy(0) * Vec; }

  /// Begins with the pixels from `row` on and tile `k_tile` of K.
  __device__ __forceinline__ PixelCopy(const Args& argument, u32 batch, u32 row, int k_tile) : g(argument) {
    if constexpr (Batches == ImplicitBatches::groups || Batches == ImplicitBatches::joined) group = static_cast<int>(batch) * g.segments[0].channels;
    int phase_d = 0, phase_h = 0, phase_w = 0;
    if constexpr (Transposed) {
      const int rest = static_cast<int>(batch) / g.stride[1];
      phase_w = static_cast<int>(batch) - rest * g.stride[1];
      phase_d = rest / g.stride[0];
      phase_h = rest - phase_d * g.stride[0];
      if constexpr (Volume) lacks_d = lacks_first_tap(g.stride_d, g.pad_d, g.all_taps_d, phase_d);
      lacks_h = lacks_first_tap(g.stride[0], g.pad[0], g.all_taps[0], phase_h);
      lacks_w = lacks_first_tap(g.stride[1], g.pad[1], g.all_taps[1], phase_w);
    }
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const u32 p = row + Share::line(i);
      const u32 line = g.width.quotient(p), plane = g.height.quotient(line);
      u32 n = plane;
      if constexpr (Volume) {
        n = g.depth.quotient(plane);
        first_d[i] = implicit_first<Transposed>(static_cast<int>(plane - n * g.depth.divisor), g.stride_d, g.pad_d, g.taps_d, g.dilation_d, phase_d);
      }
      image[i] = p < g.m ? static_cast<int>(n) : -1;
      first_h[i] = implicit_first<Transposed>(static_cast<int>(line - plane * g.height.divisor), g.stride[0], g.pad[0], g.taps[0], g.dilation[0], phase_h);
      first_w[i] = implicit_first<Transposed>(static_cast<int>(p - line * g.width.divisor), g.stride[1], g.pad[1], g.taps[1], g.dilation[1], phase_w);
    }
    const int taps = (Volume ? g.taps_d : 1) * g.taps[0] * g.taps[1];
    while (segment + 1 < Segments && k_tile >= taps * g.segments[segment].tiles)
      k_tile -= taps * g.segments[segment++].tiles;
    const int tap = k_tile / g.segments[segment].tiles;
    channel = (k_tile - tap * g.segments[segment].tiles) * Tile::tile_k;
    tap_h = tap / g.taps[1];
    tap_w = tap - tap_h * g.taps[1];
    if constexpr (Volume) {
      tap_d = tap_h / g.taps[0];
      tap_h -= tap_d * g.taps[0];
    }
    locate();
  }

  /// Sets the offsets of the pixels under this tap.
  __device__ __forceinline__ void locate() {
    const ImageSegment<T>& s = g.segments[segment];
    const int over_h = tap_h * g.dilation[0], over_w = tap_w * g.dilation[1];
    const bool none = Transposed && ((lacks_d && tap_d == 0) || (lacks_h && tap_h == 0) || (lacks_w && tap_w == 0));
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int h = first_h[i] + over_h, w = first_w[i] + over_w;
      bool inside = !none && image[i] >= 0 && h >= 0 && h < g.in_height && w >= 0 && w < g.in_width;
      int first = image[i] * s.image + group;
      if constexpr (Volume) {
        const int d = first_d[i] + tap_d * g.dilation_d;
        inside = inside && d >= 0 && d < g.in_depth;
        first += (d >> s.shift) * s.plane;
      }
      at[i] = inside ? first + (h >> s.shift) * s.row + (w >> s.shift) * s.pixel : -Vec;
    }
  }

  /// Issues the copies of the next tile.
  __device__ __forceinline__ void operator()(u32 shared) {
    const ImageSegment<T>& s = g.segments[segment];
    const T* from = s.x + channel + element();                                                    // [N, H, W, Ci - channel]
    const bool any = channel + element() < s.channels;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      if (Share::beyond(i)) break;
      copy_async<Vec * size>(shared + tile_offset<line_bytes, Tile::a_reads>(Share::line(i), element() * size), from + at[i],
                             any && at[i] >= 0);
    }
    channel += Tile::tile_k;
    if (channel < s.channels) return;
    channel = 0;
    if (++tap_w == g.taps[1]) {
      tap_w = 0;
      if (++tap_h == g.taps[0]) {
        tap_h = 0;
        if (!Volume || ++tap_d == g.taps_d) {
          tap_d = 0;
          if (segment + 1 < Segments) ++segment;
        }
      }
    }
    locate();
  }
};

/// Whether any of the thread's sums is no number.
template <class Tile> __device__ __forceinline__ bool lacks_numbers(const Tile& sums) {
  bool lacks = false;
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
    for (int j = 0; j < Tile::columns; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) lacks = lacks || sums.d[i][j][e] != sums.d[i][j][e];
  return lacks;
}

/// The sum at pixel p and output m of a batch of joined groups, of the output's own group alone. `line`: weights of a tap.
template <bool Volume, class T, class Sum, int Segments>
__device__ __forceinline__ Sum sum_of_own_group(const ImplicitArgs<T, Sum, Segments>& g, int line, u32 batch, u32 p, u32 m) {
  const ImageSegment<T>& s = g.segments[0];
  const int channels = s.channels / g.joined, first = static_cast<int>(m) / (static_cast<int>(g.n) / g.joined) * channels;
  const u32 row = g.width.quotient(p), plane = g.height.quotient(row);
  u32 n = plane;
  int first_d = 0;
  if constexpr (Volume) {
    n = g.depth.quotient(plane);
    first_d = static_cast<int>(plane - n * g.depth.divisor) * g.stride_d - g.pad_d;
  }
  const int first_h = static_cast<int>(row - plane * g.height.divisor) * g.stride[0] - g.pad[0];
  const int first_w = static_cast<int>(p - row * g.width.divisor) * g.stride[1] - g.pad[1];
  const T* x = s.x + (static_cast<int>(n) * s.image + static_cast<int>(batch) * s.channels + first);              // [D, H, W, channels]
  const T* w = g.w + (batch * g.w_batch + m * g.w_row + first);                                   // [taps, channels]
  Sum sum = 0;
#pragma unroll 1
  for (int kd = 0; kd < (Volume ? g.taps_d : 1); ++kd)
#pragma unroll 1
    for (int kh = 0; kh < g.taps[0]; ++kh)
#pragma unroll 1
      for (int kw = 0; kw < g.taps[1]; ++kw, w += line) {
        const int d = first_d + kd * g.dilation_d, h = first_h + kh * g.dilation[0], v = first_w + kw * g.dilation[1];
        if (h < 0 || h >= g.in_height || v < 0 || v >= g.in_width || (Volume && (d < 0 || d >= g.in_depth))) continue;
        const T* at = x + ((Volume ? d * s.plane : 0) + h * s.row + v * s.pixel);
#pragma unroll 1
        for (int c = 0; c < channels; ++c) sum += widened<Sum>(at[c]) * widened<Sum>(w[c]);
      }
  return sum;
}

/// Launch: (tiles of all batches, splits) blocks of Tile::threads; Tile::shared_bytes of dynamic shared memory.
template <class Tile, int Vec, bool Split, bool Volume, ImplicitBatches Batches, class T, class Sum, int Segments, class Epilogue>
__device__ __forceinline__ void implicit_conv(const WithEpilogue<ImplicitArgs<T, Sum, Segments>, Epilogue>& a) {
  extern __shared__ __align__(128) char shared[];
  const ImplicitArgs<T, Sum, Segments>& g = a.args;
  const Epilogue& epilogue = a.epilogue;
  const u32 batch = blockIdx.x / g.tiles, tile = blockIdx.x - batch * g.tiles, tile_m = tile / g.tiles_n;
  const u32 row = tile_m * Tile::tile_m, column = (tile - tile_m * g.tiles_n) * Tile::tile_n;
  const int begin = Split ? static_cast<int>(blockIdx.y) * g.split_tiles : 0;                     // tiles of K
  const int k_tiles = Split && g.k_tiles - begin > g.split_tiles ? g.split_tiles : g.k_tiles - begin;

  PixelCopy<Tile, Vec, Segments, Volume, Batches> copy_a(g, batch, row, begin);                   // (TileM, TileK)
  const T* w = g.w + batch * g.w_batch + column * g.w_row + begin * Tile::tile_k;
  typename Tile::CopyB copy_b(w, g.w_row, 1, g.n - column);                                       // (TileN, TileK)

  Tile sums;                                                                                      // (TileM, TileN)
  multiply_tiles(sums, shared, k_tiles, [&](u32 to_a, u32 to_b, int) {
    copy_a(to_a);
    copy_b(to_b, Tile::tile_k);
  });

  const int rows = static_cast<int>(g.m - row), columns = static_cast<int>(g.n - column);         // inside of the output
  const auto start = epilogue.start(batch);
  if constexpr (Batches == ImplicitBatches::joined) {
    static_assert(!Split);
    if (__syncthreads_or(lacks_numbers(sums))) {
      const int line = g.segments[0].tiles * Tile::tile_k;
#pragma unroll 1
      for (int q = threadIdx.x; q < Tile::tile_m * Tile::tile_n / 4; q += Tile::threads) {
        const int r = q / (Tile::tile_n / 4), c = q % (Tile::tile_n / 4) * 4;
        if (r >= rows || c >= columns) continue;
        Sum own[4] = {};
#pragma unroll 1
        for (int e = 0; e < 4 && c + e < columns; ++e) {                                          // one copy of the code
          const Sum one = sum_of_own_group<Volume>(g, line, batch, row + r, column + c + e);
#pragma unroll
          for (int i = 0; i < 4; ++i) own[i] = i == e ? one : own[i];
        }
        epilogue.apply(start, row + r, column + c, static_cast<u32>(columns - c), own);
      }
      return;
    }
  }
  finish_tile<Split>(sums, shared, rows, columns, g.partial, g.arrived, [&](int r, int c, const Sum(&v)[4]) {
    epilogue.apply(start, row + r, column + c, static_cast<u32>(columns - c), v);
  });
}
