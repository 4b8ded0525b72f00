// Images of few channels with their padding in place, so that a window's row of taps is contiguous.
//
//   y[n, h, w, c] = x[n, c, h - pad, w - pad], zero outside of the image and for channels that x lacks
//
//   x    [N, C, H, W] of any strides        y    [N, Height, Width, Channels], dense; a thread a pixel
#pragma once

#include "common/divide.cuh"

struct PadGeometry {
  u32 pixels;                   // of y
  Divider width, height;        // of y
  i32 in[3], pad[2];            // C, H, W of x
  i64 from[4];                  // strides of x along N, C, H, W
};

template <class T, int Channels> __device__ __forceinline__ void pad_image(const T* x, T* y, const PadGeometry& g) {
  const u32 pixel = blockIdx.x * blockDim.x + threadIdx.x;
  if (pixel >= g.pixels) return;
  const u32 line = g.width.quotient(pixel), n = g.height.quotient(line);
  const int h = static_cast<int>(line - n * g.height.divisor) - g.pad[0],
            w = static_cast<int>(pixel - line * g.width.divisor) - g.pad[1];
  const bool inside = h >= 0 && h < g.in[1] && w >= 0 && w < g.in[2];
  const T* from = x + n * g.from[0] + h * g.from[2] + w * g.from[3];
  Vector<T, Channels> v;
#pragma unroll
  for (int c = 0; c < Channels; ++c) v.at[c] = inside && c < g.in[0] ? from[c * g.from[1]] : T{};
  reinterpret_cast<Vector<T, Channels>*>(y)[pixel] = v;
}
