// Convolution of an image or a volume of up to 4 channels, as it lies in memory, on tensor cores; and the maximum over windows of an
// image's results.
//
//   v[n, m, oh, ow] = Epilogue(sum over channels and taps of x[n, channel, oh * stride + kh * dilation - pad, ow * stride + kw - pad] · w[m, channel, kh, kw])
//   y = v, or y[n, m, ph, pw] = max over the pooling's taps of v that lie inside
//
//   x   [N, C, H, W] of any strides: planes or pixels. Where it is of another type (bytes, floats), elements are converted as they are copied.
//       Of a volume [N, C, D, H, W], and the sum runs over the depth's taps too
//
// A block has a rectangle of windows. It copies what lies under all of them to shared memory once, four channels a pixel, and a
// lane's words of the left operand are read from there: those of a row of taps lie side by side. So nothing is unfolded, and no
// padded image is written. Where results are pooled they stay in shared memory: neighbouring rectangles overlap by what the
// pooling's windows do.
//
// A rectangle lies in one plane of a volume's output. The planes of x under it are copied and multiplied one after the other; one outside of
// the volume whose elements would be zeros is left out.
//
//   weights   (depth's tap, row of taps, step, 16 columns, lane) of four words, as a lane multiplies them
//   patch     (rows, columns) of (4 channels)
//   results   (window) of (columns), where they are pooled
//
// Blocks stay, and go from rectangle to rectangle.
#pragma once

#include "common/copy_async.cuh"
#include "common/mma.cuh"
#include "common/ptx/numbers.cuh"
#include "kernels/conv/stem.h"
#include "kernels/pointwise/epilogue.h"
#include "pointwise/epilogue.cuh"
#include "pool/largest.cuh"

/// What is convolved where that is the image itself.
struct StemImage {
  template <class T> static __device__ __forceinline__ void apply(T x, T& y) { y = x; }
};

template <class TA, class TB, StemConfig C, class Result> struct StemTile {
  using A = TA;
  using Product = Mma<TA, TB>;
  using Sum = typename Product::Sum;
  static constexpr bool floats = sizeof(TA) == 2, pools = C.pool_h > 0;
  static constexpr int pixel = stem_channels * static_cast<int>(sizeof(TA)), line = stem_line(C.taps_w, sizeof(TA)), steps = line / 32;
  static constexpr int windows = C.tile_h * C.tile_w, threads = 32 * C.warps;
  static_assert(windows <= 16 * C.fragments * C.warps && C.columns % 16 == 0 && C.columns % (4 * C.width) == 0);
  static constexpr int patch_h = (C.tile_h - 1) * C.stride_h + (C.taps_h - 1) * C.dilation_h + 1;
  static constexpr int patch_w = (C.tile_w - 1) * C.stride_w + line / pixel;
  static constexpr int plane_bytes = C.taps_h * steps * (C.columns / 16) * 512, weights_bytes = C.taps_d * plane_bytes;
  static constexpr int patch_bytes = (patch_h * patch_w * pixel + 15) / 16 * 16;
  static constexpr int result_line = C.columns * static_cast<int>(sizeof(Result));
  static constexpr int shared_bytes = weights_bytes + patch_bytes + (pools ? windows * result_line : 0);
  // Windows of a rectangle that begin one, along an axis.
  static constexpr int step_h = pools ? (C.tile_h - C.pool_h) / C.pool_stride_h + 1 : C.tile_h;
  static constexpr int step_w = pools ? (C.tile_w - C.pool_w) / C.pool_stride_w + 1 : C.tile_w;

  /// Where byte `byte` of a window's results lies: two windows' vectors of 16 bytes side by side meet all banks.
  static __device__ __forceinline__ int place(int window, int byte) {
    if constexpr (result_line % 128 != 0) return window * result_line + byte;
    return window * result_line + (byte / 16 ^ (window % 2 * 4 + window / 2 % 4)) * 16 + byte % 16;
  }
};

/// A pixel's channels as `Image` makes them; of X in memory, T in the patch. `inside`: whether there is a pixel.
template <class Image, class T, int Channels, class X>
__device__ __forceinline__ Vector<T, stem_channels> stem_pixel(const X (&x)[Channels], bool inside, i32 filled) {
  Vector<T, stem_channels> v;
  if constexpr (requires { Image::unsaturated; }) {
    int words[stem_channels];
#pragma unroll
    for (int c = 0; c < stem_channels; ++c) {
      words[c] = filled;
      if (c >= Channels) continue;
      Image::apply(x[c < Channels ? c : 0], words[c]);
      if (!inside) words[c] = filled;
    }
    reinterpret_cast<u32&>(v) = ptx::pack_saturated<T(-1) < T(0)>(words);
  } else {
    T fill{};
    if constexpr (sizeof(T) == 1) fill = static_cast<T>(filled);
#pragma unroll
    for (int c = 0; c < stem_channels; ++c) {
      T one = fill;
      if (c < Channels) Image::apply(x[c < Channels ? c : 0], one);
      v.at[c] = inside ? one : fill;
    }
  }
  return v;
}

/// Copies what lies under a rectangle of windows, whose first tap is at `top`, `left` of a plane of x; where `plane` is false there is none.
/// A thread's loads of several pixels are under way together: were each pixel stored before the next is read, every one would take memory's
/// whole latency.
template <class Tile, StemConfig C, class Image, class Args, class X>
__device__ __forceinline__ void stem_patch(char* patch, const Args& g, const X* image, bool plane, int top, int left) {
  constexpr int pixels = Tile::patch_h * Tile::patch_w, rounds = (pixels + Tile::threads - 1) / Tile::threads;
  constexpr int together = (rounds + (rounds + 7) / 8 - 1) / ((rounds + 7) / 8);
  const int step_h = static_cast<int>(g.from[3]), step_w = static_cast<int>(g.from[4]), step_c = static_cast<int>(g.from[1]);
#pragma unroll 1
  for (int first = threadIdx.x; first < pixels; first += together * Tile::threads) {
    X x[together][C.channels];
    u32 inside = 0;
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const int at = first + i * Tile::threads, h = top + at / Tile::patch_w, w = left + at % Tile::patch_w;
      const bool there = plane && at < pixels && static_cast<u32>(h) < static_cast<u32>(g.in[1]) && static_cast<u32>(w) < static_cast<u32>(g.in[2]);
      const X* const from = image + (there ? h * step_h + w * step_w : 0);
#pragma unroll
      for (int c = 0; c < C.channels; ++c) x[i][c] = there ? from[c * step_c] : X{};
      inside |= u32{there} << i;
    }
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const int at = first + i * Tile::threads;
      if (at < pixels)
        *reinterpret_cast<Vector<typename Tile::A, stem_channels>*>(patch + at * Tile::pixel) =
            stem_pixel<Image, typename Tile::A>(x[i], (inside >> i & 1) != 0, g.fill);
    }
  }
}

/// ByColumn: a bit for each operand that has one value a column. Image: x's elements as they are convolved.
template <class Tile, StemConfig C, u32 ByColumn, class Image, class Args, class Epilogue>
__device__ __forceinline__ void stem_conv(const WithEpilogue<Args, Epilogue>& args) {
  extern __shared__ __align__(128) char shared[];
  const Args& g = args.args;
  const auto& epilogue = args.epilogue;
  char* const patch = shared + Tile::weights_bytes;
  char* const results = patch + Tile::patch_bytes;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = lane % 4;
  const u32 column = blockIdx.y * C.columns;

  const char* const weights = static_cast<const char*>(g.w) + static_cast<i64>(blockIdx.y) * Tile::weights_bytes;
  for (int at = threadIdx.x * 16; at < Tile::weights_bytes; at += Tile::threads * 16)
    copy_async<16>(shared_address(shared) + at, weights + at, true);
  copy_async_commit();

  int at_window[C.fragments][2];                                            // of a lane's rows, in the patch, with its bytes of a step
#pragma unroll
  for (int i = 0; i < C.fragments; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int at = (warp * C.fragments + i) * 16 + h * 8 + lane / 4, window = at < Tile::windows ? at : 0;
      at_window[i][h] =
          (window / C.tile_w * (C.stride_h * Tile::patch_w) + window % C.tile_w * C.stride_w) * Tile::pixel + t * 4;
    }

#pragma unroll 1
  for (u32 tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
    const u32 line = g.tiles_w.quotient(tile), plane = g.tiles_h.quotient(line), n = g.planes.quotient(plane);   // plane: of all outputs
    const int down = static_cast<int>(line - plane * g.tiles_h.divisor) * Tile::step_h,
              right = static_cast<int>(tile - line * g.tiles_w.divisor) * Tile::step_w;
    // The first window.
    const int oh = Tile::pools ? down * C.pool_stride_h - g.pool_pad[0] : down, ow = Tile::pools ? right * C.pool_stride_w - g.pool_pad[1] : right;
    const int depth = static_cast<int>(plane - n * g.planes.divisor) * g.stride_d - g.pad[0];

    typename Tile::Sum d[C.fragments][C.columns / 8][4] = {};
#pragma unroll 1
    for (int kd = 0; kd < C.taps_d; ++kd) {
      const int at_depth = depth + kd * g.dilation_d;
      const bool there = static_cast<u32>(at_depth) < static_cast<u32>(g.in[0]);
      if (!there && (Tile::floats || g.fill == 0)) continue;
      stem_patch<Tile, C, Image>(patch, g, g.x + n * g.from[0] + (there ? at_depth * g.from[2] : 0), there, oh * C.stride_h - g.pad[1],
                                 ow * C.stride_w - g.pad[2]);
      copy_async_wait<0>();
      __syncthreads();

      const char* const weights = shared + kd * Tile::plane_bytes;
#pragma unroll
      for (int kh = 0; kh < C.taps_h; ++kh)
#pragma unroll
        for (int s = 0; s < Tile::steps; ++s) {
          const char* const from = weights + (kh * Tile::steps + s) * (C.columns / 16) * 512 + lane * 16;
          u32 b[C.columns / 8][2];
#pragma unroll
          for (int j = 0; j < C.columns / 16; ++j) {
            const uint4 four = *reinterpret_cast<const uint4*>(from + j * 512);
            b[2 * j][0] = four.x, b[2 * j][1] = four.y, b[2 * j + 1][0] = four.z, b[2 * j + 1][1] = four.w;
          }
#pragma unroll
          for (int i = 0; i < C.fragments; ++i) {
            u32 a[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const int byte = s * 32 + e / 2 * 16;                            // of the row of taps, of the first lane
              a[e] = *reinterpret_cast<const u32*>(patch + at_window[i][e % 2] + kh * C.dilation_h * Tile::patch_w * Tile::pixel + byte);
              // What lies behind the last tap meets weights of zero; floats of no number would not become zeros.
              if (Tile::floats && byte + 16 > C.taps_w * Tile::pixel && byte + t * 4 >= C.taps_w * Tile::pixel) a[e] = 0;
            }
#pragma unroll
            for (int j = 0; j < C.columns / 8; ++j) Tile::Product::add(d[i][j], a, b[j]);
          }
        }
      if (kd + 1 < C.taps_d) __syncthreads();                               // all are done with this plane
    }

    const auto start = epilogue.start(0);
    constexpr int of_lane = C.columns / (4 * C.width);
#pragma unroll
    for (int q = 0; q < of_lane; ++q) {
      const u32 c = column + q * (4 * C.width) + t * C.width;                // walked_channel
      if (c >= g.n) continue;
      const u32 count = C.whole ? C.width : g.n - c;
      typename Epilogue::Operands columns;                                   // (width) of (N)
      epilogue.template fetch_some<ByColumn>(columns, start, 0, c, count);
#pragma unroll
      for (int i = 0; i < C.fragments; ++i)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int window = (warp * C.fragments + i) * 16 + h * 8 + lane / 4;
          const int row = oh + window / C.tile_w, at = ow + window % C.tile_w;
          const bool inside = window < Tile::windows && row < g.out[0] && at < g.out[1];
          typename Epilogue::Sum v[C.width];
#pragma unroll
          for (int e = 0; e < C.width; ++e) v[e] = d[i][q * (C.width / 2) + e / 2][h * 2 + e % 2];
          if constexpr (Tile::pools) {
            if (window < Tile::windows)
              *reinterpret_cast<typename Epilogue::Results*>(
                  results + Tile::place(window, static_cast<int>(c - column) * static_cast<int>(sizeof(typename Epilogue::Result)))) =
                  epilogue.results(columns, v);
          } else {
            typename Epilogue::Operands all = columns;
            epilogue.template fetch_some<~ByColumn>(all, start, inside ? (plane * g.out[0] + row) * g.out[1] + at : 0, c, count);
            if (inside) epilogue.write(all, count, v);
          }
        }
    }
    __syncthreads();                                                        // all are done with the patch, and all results are there
    if constexpr (Tile::pools) {
      using T = typename Epilogue::Result;
      constexpr int vectors = C.columns / C.width;                           // of a window
      for (int at = threadIdx.x; at < Tile::step_h * Tile::step_w * vectors; at += Tile::threads) {
        const int vector = at % vectors, place = at / vectors, ph = place / Tile::step_w, pw = place % Tile::step_w;
        const u32 c = column + vector * C.width;
        if (down + ph >= g.pooled_out[0] || right + pw >= g.pooled_out[1] || c >= g.n) continue;
        Largest<T, C.width> largest;
#pragma unroll
        for (int kh = 0; kh < C.pool_h; ++kh)
#pragma unroll
          for (int kw = 0; kw < C.pool_w; ++kw) {
            const int h = ph * C.pool_stride_h + kh, w = pw * C.pool_stride_w + kw;
            if (oh + h < 0 || oh + h >= g.out[0] || ow + w < 0 || ow + w >= g.out[1]) continue;
            largest.add(*reinterpret_cast<const Vector<T, C.width>*>(
                results + Tile::place(h * C.tile_w + w, vector * C.width * static_cast<int>(sizeof(T)))));
          }
        store<C.whole ? 1 : -1>(static_cast<T*>(g.pooled), n * g.to[0] + (down + ph) * g.to[1] + (right + pw) * g.to[2] + c, 1,
                                C.whole ? C.width : g.n - c, largest.result());
      }
    }
  }
}
