// Deformable convolution of plain images: every tap reads the image at a learned offset from its place, between pixels.
// Dai et al., arXiv:1703.06211; the mask is that of arXiv:1811.11168.
//
//   sum[n, m, o] = sum over channels c of m's group and taps k of w[m, c, k] * mask[n, c, k, o] * x[n, c](o * stride + k * dilation - pad + offset)
//   y[n, m, o]   = sum + bias[m]
//
//   x        [N, C, H, W]
//   w        [M, C / groups, KH, KW]
//   offset   [N, offset groups, KH * KW, 2, OH, OW]       along H, along W
//   mask     [N, offset groups, KH * KW, OH, OW]          null: 1
//   bias     [M]                                          null: 0
//
// A block makes 32 pixels by warps * outputs channels of a group: a lane has a pixel, a warp some of the channels. `depth` rows
// of (channel, tap) at a time, it samples the image for its pixels and copies the weights of its channels to shared memory. The
// neighbours of a place outside of the image count as zero. Accumulates in float.
//
// Launch: (blocks of pixels, groups * tiles of outputs).
#pragma once

#include "common/convert.cuh"
#include "kernels/conv/deform.h"

/// Where a lane's pixel lies.
struct DeformPixel {
  u32 n, o;                     // item; place in the output's plane
  int top, left;                // of the first tap, before the offsets

  __device__ __forceinline__ DeformPixel(const DeformArgs& g, u32 pixel) {
    n = g.plane.quotient(pixel);
    o = pixel - n * g.plane.divisor;
    const u32 h = g.row.quotient(o);
    top = int(h) * g.stride[0] - g.pad[0];
    left = int(o - h * g.row.divisor) * g.stride[1] - g.pad[1];
  }
};

/// A place between two pixels of an axis. The offset alone is split: its sum with the place would round its fraction.
struct DeformPlace {
  int low;
  float weight[2];

  __device__ __forceinline__ DeformPlace(int place, float offset) {
    const float whole = floorf(offset);
    const bool near = whole > -1e9f && whole < 1e9f;                       // not a NaN, either
    low = near ? place + int(whole) : -2;
    weight[1] = near ? offset - whole : 0;
    weight[0] = near ? 1 - weight[1] : 0;
  }
};

/// The image's value for tap k of channel c, times its mask.
template <class T>
__device__ __forceinline__ float deform_sample(const T* x, const T* offset, const T* mask, const DeformArgs& g, const DeformPixel& at,
                                               u32 c, u32 k) {
  const u32 kh = g.taps_w.quotient(k), kw = k - kh * g.taps_w.divisor, plane = g.plane.divisor;
  const i64 tap = i64(at.n * g.offset_groups + g.sharing.quotient(c)) * g.taps.divisor + k;       // (n, offset group, k)
  const DeformPlace down(at.top + int(kh) * g.dilation[0], widened<float>(offset[(2 * tap) * plane + at.o]));
  const DeformPlace across(at.left + int(kw) * g.dilation[1], widened<float>(offset[(2 * tap + 1) * plane + at.o]));
  const T* image = x + i64(at.n * g.channels + c) * g.height * g.width;                           // (H, W)
  float value = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int h = down.low + i, w = across.low + j;
      const float weight = down.weight[i] * across.weight[j];
      if (weight != 0 && h >= 0 && h < g.height && w >= 0 && w < g.width) value += weight * widened<float>(image[h * g.width + w]);
    }
  return mask ? value * widened<float>(mask[tap * plane + at.o]) : value;
}

template <class T, DeformConfig Config>
__device__ __forceinline__ void deform_conv(const T* x, const T* w, const T* offset, const T* bias, const T* mask, T* y,
                                            const DeformArgs& g) {
  constexpr int warps = Config.warps, outputs = Config.outputs, depth = Config.depth, tile = warps * outputs;
  __shared__ float columns[depth][32];                                                            // (depth, pixels)
  __shared__ Vector<float, outputs> weights[depth][warps];                                        // (depth, tile)
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const u32 pixel = blockIdx.x * 32 + lane;
  const bool inside = pixel < g.pixels;
  const DeformPixel at(g, inside ? pixel : 0);
  const int group = g.tiles.quotient(blockIdx.y), first = (blockIdx.y - group * g.tiles.divisor) * tile;      // of the group's
  const int rows = g.group_channels * g.taps.divisor;                                             // (c, k)
  const T* filters = w + i64(group * g.group_outputs + first) * rows;                             // (tile, rows)

  float sum[outputs] = {};
  for (int begin = 0; begin < rows; begin += depth) {
    for (int e = warp; e < depth; e += warps) {
      const int row = begin + e;
      const u32 c = g.taps.quotient(min(row, rows - 1));
      columns[e][lane] = inside && row < rows
          ? deform_sample(x, offset, mask, g, at, group * g.group_channels + c, row - c * g.taps.divisor) : 0.0f;
    }
    for (int i = threadIdx.x; i < depth * tile; i += warps * 32) {
      const int m = i / depth, e = i % depth;
      weights[e][m / outputs].at[m % outputs] =
          begin + e < rows && first + m < g.group_outputs ? widened<float>(filters[i64(m) * rows + begin + e]) : 0.0f;
    }
    __syncthreads();
#pragma unroll 8
    for (int e = 0; e < depth; ++e) {
      const float value = columns[e][lane];
      const Vector<float, outputs> weight = weights[e][warp];
#pragma unroll
      for (int m = 0; m < outputs; ++m) sum[m] += value * weight.at[m];
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < outputs; ++i) {
    const int m = first + warp * outputs + i;
    if (!inside || m >= g.group_outputs) continue;
    const int channel = group * g.group_outputs + m, all = g.channels / g.group_channels * g.group_outputs;
    if (bias) sum[i] += widened<float>(bias[channel]);
    y[i64(at.n * all + channel) * g.plane.divisor + at.o] = narrowed<T>(sum[i]);
  }
}
