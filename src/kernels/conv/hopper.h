// The argument of conv/hopper.cuh, and the walk over K that it has with the host's tests: for g++ and for NVRTC.
#pragma once

#include "kernels/gemm/hopper.h"

namespace smelt::kernels {

/// How a convolution's windows lie in its images; pairs are along H, W.
struct HopperWindows {
  Divider width, height;        // of the output
  i32 stride[2], first[2];      // first: where the first window begins, minus the padding
  i32 dilation[2], taps[2];
};
static_assert(sizeof(HopperWindows) == 56);

/// a of the product: a line for each pixel of the output, K runs over segments, then taps, then chunks of their channels.
template <int Segments, class Windows> struct WindowsConvArgs {
  HopperGemmArgs gemm;          // a: of the first segment, in im2col mode, as the others'
  TensorMap more[Segments > 1 ? Segments - 1 : 1];
  Windows windows;
  u32 chunks[Segments];         // of a pixel's channels, a stage's each
};

/// Bytes of a WindowsConvArgs, for numbers that the host knows at run time only.
template <class Windows> SMELT_SHARED constexpr u64 conv_bytes(int segments) {
  const u64 count = static_cast<u64>(segments), maps = count > 1 ? count - 1 : 1;
  return (sizeof(HopperGemmArgs) + sizeof(TensorMap) * maps + sizeof(Windows) + 4 * count + 127) / 128 * 128;
}
template <int Segments> using HopperConvArgs = WindowsConvArgs<Segments, HopperWindows>;
static_assert(sizeof(HopperConvArgs<1>) == conv_bytes<HopperWindows>(1) && sizeof(HopperConvArgs<3>) == conv_bytes<HopperWindows>(3));

/// Where the next stage's copy reads: K in its order, a stage a step.
struct HopperWalk {
  u32 segment, chunk;           // the chunk of its channels
  i32 column, right, down;      // the tap's column; pixels from where a window begins to the tap's

  /// At step `step` of all.
  SMELT_SHARED constexpr HopperWalk(const HopperWindows& w, const u32* chunks, int segments, u32 step)
      : segment(0), chunk(0), column(0), right(0), down(0) {
    if (step == 0) return;
    const u32 taps = static_cast<u32>(w.taps[0] * w.taps[1]);
    while (segment + 1 < static_cast<u32>(segments) && step >= taps * chunks[segment]) step -= taps * chunks[segment++];
    const u32 tap = step / chunks[segment], row = tap / static_cast<u32>(w.taps[1]);
    chunk = step - tap * chunks[segment];
    column = static_cast<i32>(tap - row * static_cast<u32>(w.taps[1]));
    right = column * w.dilation[1], down = static_cast<i32>(row) * w.dilation[0];
  }
  SMELT_SHARED constexpr void advance(const HopperWindows& w, const u32* chunks) {
    if (++chunk < chunks[segment]) return;
    chunk = 0, right += w.dilation[1];
    if (++column < w.taps[1]) return;
    column = right = 0, down += w.dilation[0];
    if (down < w.taps[0] * w.dilation[0]) return;
    down = 0, ++segment;
  }
};

/// Where windows up to two pixels apart lie in their images, with the padding in place: a row of `width` of them, an image of `height`
/// rows. Where what is right of a row is left of the next, and what is below an image above the next, zeros, it is there once. The
/// windows of y are the first `out` of a row and of an image. Pairs are rows, columns.
///
/// Taps at a multiple of the stride from a window's first are the first of others. The taps are those of stride x stride phases:
/// tap t of phase p is p + t * stride.
struct SlidingWindows {
  Divider width, height;
  u32 out[2];
  i32 first[2];                 // where the first window begins, minus the padding
  u32 stride[2], taps[2];
  u32 step[2];                  // windows from a phase's tap to the next below it, beside it
  u32 m;                        // rows of y

  SMELT_SHARED constexpr u32 phases(int axis) const { return taps[axis] < stride[axis] ? taps[axis] : stride[axis]; }
  SMELT_SHARED constexpr u32 taps_of(int axis, u32 phase) const { return (taps[axis] + stride[axis] - 1 - phase) >> (stride[axis] - 1); }
#ifdef __CUDACC__
  /// The row of y that window `at` of all is, beyond them where none is.
  __device__ __forceinline__ u32 row_of_y(u32 at) const {
    const u32 line = width.quotient(at), column = at - line * width.divisor, image = height.quotient(line);
    const u32 row = line - image * height.divisor;
    return row < out[0] && column < out[1] ? (image * out[0] + row) * out[1] + column : ~0u;
  }
#endif
};
static_assert(sizeof(SlidingWindows) == 68);

/// The argument of conv/sliding.cuh: a line of a for each window, K as HopperConvArgs has it; `chunks` are a line's.
template <int Segments> using SlidingConvArgs = WindowsConvArgs<Segments, SlidingWindows>;
static_assert(sizeof(SlidingConvArgs<1>) == conv_bytes<SlidingWindows>(1) && sizeof(SlidingConvArgs<3>) == conv_bytes<SlidingWindows>(3));

}  // namespace smelt::kernels
