// Pads images of few channels, so that a window's row of taps is contiguous.
//
//   y[n, h, w, c] = x[n, c, h - pad, w - pad]     `fill` outside of the image and for channels that x lacks
//
//   x    [N, C, H, W] of any strides
//   y    [N, Height, Width, Channels], dense
//
// Launch: one thread per pixel of y.
#pragma once

#include "common/types.cuh"
#include "kernels/conv/pad.h"

template <int Channels, class T> __device__ __forceinline__ void pad_image(const PadArgs<T>& g) {
  const u32 pixel = blockIdx.x * blockDim.x + threadIdx.x;
  if (pixel >= g.pixels) return;
  const u32 line = g.width.quotient(pixel), n = g.height.quotient(line);                          // line: (n, h)
  const int h = static_cast<int>(line - n * g.height.divisor) - g.pad[0],
            w = static_cast<int>(pixel - line * g.width.divisor) - g.pad[1];
  const bool inside = h >= 0 && h < g.in[1] && w >= 0 && w < g.in[2];
  const T* from = g.x + n * g.from[0] + h * g.from[2] + w * g.from[3];                            // [C]
  T fill{};
  if constexpr (sizeof(T) == 1) fill = static_cast<T>(g.fill);
  Vector<T, Channels> v;                                                                          // (Channels)
#pragma unroll
  for (int c = 0; c < Channels; ++c) v.at[c] = inside && c < g.in[0] ? from[c * g.from[1]] : fill;
  reinterpret_cast<Vector<T, Channels>*>(g.y)[pixel] = v;                                         // (Channels)
}
