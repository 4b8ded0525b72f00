// The constants and the argument of conv/stem.cuh, and where its weights lie. For g++ and for NVRTC.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

constexpr int stem_channels = 4;   // of a pixel in shared memory

struct StemConfig {
  int channels;                 // of the image: 1 to stem_channels
  int taps_d, taps_h, taps_w, dilation_h, stride_h, stride_w;   // taps_d: of a volume's depth; 1 of an image
  int tile_h, tile_w;           // windows of a tile
  int fragments, warps;         // 16 windows each, of a warp
  int columns;                  // output channels of a tile
  int width;                    // neighbouring channels that a lane has side by side
  bool whole;                   // y's channels are a multiple of it
  int pool_h, pool_w;           // what is pooled of the windows' results; 0: nothing
  int pool_stride_h, pool_stride_w;
};

/// Bytes along K of a row of taps, whole steps of 32.
SMELT_SHARED constexpr int stem_line(int taps_w, int element) { return (taps_w * stem_channels * element + 31) / 32 * 32; }

/// Where in a row of taps the four words of a lane are that it has of a step's 16 columns: which of them, and the byte of its line.
struct StemWord { int column, byte; };
SMELT_SHARED constexpr StemWord stem_word(int lane, int word, int step) {
  return {word / 2 * 8 + lane / 4, step * 32 + word % 2 * 16 + lane % 4 * 4};
}

/// X: the image's elements in memory; void on the host.
template <class X> struct StemArgs {
  const X* x;                   // [N, C, D, H, W] of any strides, fewer than 2^31 elements from the first to the last; D of an image is 1
  const void* w;                // (tile of columns, depth's tap, row of taps, step, 16 columns, lane) of four words
  void* pooled;                 // [N, channels, H', W'], channels side by side
  i64 from[5];                  // strides of x along N, C, D, H, W
  i64 to[3];                    // of what is pooled along N, H', W'
  u32 tiles, n;                 // of all images; y's channels
  Divider tiles_w, tiles_h;     // of a plane
  Divider planes;               // of the output of a volume
  i32 in[3];                    // D, H, W
  i32 out[2], pad[3];           // of the windows; out: H, W
  i32 stride_d, dilation_d;
  i32 pooled_out[2], pool_pad[2];
  i32 fill;                     // what pixels outside of the image are, of integers
};
static_assert(sizeof(StemArgs<void>) == 192);

}  // namespace smelt::kernels
