// The argument of conv/hopper.cuh, and the walk over K that it has with the host's tests: for g++ and for NVRTC.
#pragma once

#include "kernels/gemm/hopper.h"

namespace smelt::kernels {

/// How a convolution's windows lie in its images, along H and W, or in its volumes, along D, H and W.
template <int Axes> struct HopperWindows {
  Divider out[Axes];            // extents of the output
  i32 stride[Axes], first[Axes];                                            // first: where the first window begins, minus the padding
  i32 dilation[Axes], taps[Axes];
};
static_assert(sizeof(HopperWindows<2>) == 56 && sizeof(HopperWindows<3>) == 84);

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
template <int Segments, int Axes> using HopperConvArgs = WindowsConvArgs<Segments, HopperWindows<Axes>>;
static_assert(sizeof(HopperConvArgs<1, 2>) == conv_bytes<HopperWindows<2>>(1) &&
              sizeof(HopperConvArgs<3, 3>) == conv_bytes<HopperWindows<3>>(3));

/// Where the next stage's copy reads: K in its order, a stage a step.
template <int Axes> struct HopperWalk {
  u32 segment, chunk;           // the chunk of its channels
  i32 offset[Axes];             // pixels from where a window begins to the tap's

  /// At step `step` of all.
  SMELT_SHARED constexpr HopperWalk(const HopperWindows<Axes>& w, const u32* chunks, int segments, u32 step)
      : segment(0), chunk(0), offset{} {
    if (step == 0) return;
    u32 taps = 1;
    for (int a = 0; a < Axes; ++a) taps *= static_cast<u32>(w.taps[a]);
    while (segment + 1 < static_cast<u32>(segments) && step >= taps * chunks[segment]) step -= taps * chunks[segment++];
    u32 tap = step / chunks[segment];
    chunk = step - tap * chunks[segment];
    for (int a = Axes - 1; a >= 0; --a) {
      const u32 of_axis = static_cast<u32>(w.taps[a]), rest = tap / of_axis;
      offset[a] = static_cast<i32>(tap - rest * of_axis) * w.dilation[a];
      tap = rest;
    }
  }
  SMELT_SHARED constexpr void advance(const HopperWindows<Axes>& w, const u32* chunks) {
    if (++chunk < chunks[segment]) return;
    chunk = 0;
    for (int a = Axes - 1; a >= 0; --a) {
      offset[a] += w.dilation[a];
      if (offset[a] < w.taps[a] * w.dilation[a]) return;
      offset[a] = 0;
    }
    ++segment;
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
