// Deformable convolution of plain images: every tap reads the image at a learned offset from its place, between pixels.
// Dai et al., arXiv:1703.06211; the mask is that of arXiv:1811.11168.
//
//   sum[n, m, o] = sum over channels c of m's group and taps k of w[m, c, k] * mask[n, c, k, o] * x[n, c](o * stride + k * dilation - pad + offset)
//   y[n, m, o]   = sum[n, m, o] + bias[m]
//
//   x        [N, C, H, W]
//   w        [M, C / groups, KH, KW]
//   offset   [N, offset groups, KH * KW, 2, OH, OW]       of the axis of 2: along H, then along W
//   mask     [N, offset groups, KH * KW, OH, OW]          null: 1
//   bias     [M]                                          null: 0
//
// A block computes 32 pixels by warps * outputs channels of a group: a lane has one pixel, a warp has `outputs` channels. A step
// of the block takes `depth` rows of (channel, tap): it samples the image for its pixels and copies the weights of its channels
// to shared memory, then multiplies. Neighbours of a place that lie outside of the image count as zero. Sums are in float.
//
// Launch: (blocks of pixels, groups * tiles of outputs).
#pragma once

#include "common/convert.cuh"
#include "kernels/conv/deform.h"

/// A lane's pixel of the output.
struct DeformPixel {
  u32 n, o;                     // item; place in the output's plane
  int top, left;                // where the first tap lies in the image, before its offset is added

  template <class T> __device__ __forceinline__ DeformPixel(const DeformArgs<T>& a, u32 pixel) {
    n = a.plane.quotient(pixel);
    o = pixel - n * a.plane.divisor;
    const u32 h = a.row.quotient(o);
    top = int(h) * a.stride[0] - a.pad[0];
    left = int(o - h * a.row.divisor) * a.stride[1] - a.pad[1];
  }
};

/// A place between two pixels along an axis: place + offset. Only the offset is split into pixel and fraction, because the sum
/// would round the fraction.
struct DeformPlace {
  int low;                      // the lower pixel
  float weight[2];              // of it, and of the next

  __device__ __forceinline__ DeformPlace(int place, float offset) {
    const float whole = floorf(offset);
    const bool near = whole > -1e9f && whole < 1e9f;                        // false for a NaN
    low = near ? place + int(whole) : -2;
    weight[1] = near ? offset - whole : 0;
    weight[0] = near ? 1 - weight[1] : 0;
  }
};

/// x sampled under tap k of channel c, times its mask.
template <class T> __device__ __forceinline__ float deform_sample(const DeformArgs<T>& a, const DeformPixel& at, u32 c, u32 k) {
  const u32 kh = a.taps_w.quotient(k), kw = k - kh * a.taps_w.divisor, plane = a.plane.divisor;
  const i64 tap = i64(at.n * a.offset_groups + a.sharing.quotient(c)) * a.taps.divisor + k;       // (n, offset group, k)
  const DeformPlace down(at.top + int(kh) * a.dilation[0], widened<float>(a.offset[(2 * tap) * plane + at.o]));
  const DeformPlace across(at.left + int(kw) * a.dilation[1], widened<float>(a.offset[(2 * tap + 1) * plane + at.o]));
  const T* image = a.x + i64(at.n * a.channels + c) * a.height * a.width;                         // (H, W)
  float value = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int h = down.low + i, w = across.low + j;
      const float weight = down.weight[i] * across.weight[j];
      if (weight != 0 && h >= 0 && h < a.height && w >= 0 && w < a.width) value += weight * widened<float>(image[h * a.width + w]);
    }
  return a.mask ? value * widened<float>(a.mask[tap * plane + at.o]) : value;
}

template <DeformConfig Config, class T> __device__ __forceinline__ void deform_conv(const DeformArgs<T>& a) {
  constexpr int warps = Config.warps, outputs = Config.outputs, depth = Config.depth, tile = warps * outputs;
  __shared__ float columns[depth][32];                                                            // (depth, pixels)
  __shared__ Vector<float, outputs> weights[depth][warps];                                        // (depth, tile)
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const u32 pixel = blockIdx.x * 32 + lane;
  const bool inside = pixel < a.pixels;
  const DeformPixel at(a, inside ? pixel : 0);
  const int group = a.tiles.quotient(blockIdx.y);
  const int first = (blockIdx.y - group * a.tiles.divisor) * tile;                                // of the group's outputs
  const int rows = a.group_channels * a.taps.divisor;                                             // (c, k)
  const T* filters = a.w + i64(group * a.group_outputs + first) * rows;                           // (tile, rows)

  float sum[outputs] = {};
  for (int begin = 0; begin < rows; begin += depth) {
    for (int e = warp; e < depth; e += warps) {
      const int row = begin + e;
      const u32 c = a.taps.quotient(min(row, rows - 1));
      columns[e][lane] =
          inside && row < rows ? deform_sample(a, at, group * a.group_channels + c, row - c * a.taps.divisor) : 0.0f;
    }
    for (int i = threadIdx.x; i < depth * tile; i += warps * 32) {
      const int m = i / depth, e = i % depth;
      weights[e][m / outputs].at[m % outputs] =
          begin + e < rows && first + m < a.group_outputs ? widened<float>(filters[i64(m) * rows + begin + e]) : 0.0f;
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
    if (!inside || m >= a.group_outputs) continue;
    const int channel = group * a.group_outputs + m, all = a.channels / a.group_channels * a.group_outputs;   // all: M
    if (a.bias) sum[i] += widened<float>(a.bias[channel]);
    a.y[i64(at.n * all + channel) * a.plane.divisor + at.o] = narrowed<T>(sum[i]);
  }
}
