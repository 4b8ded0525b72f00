// The argument of conv/implicit.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct ImageSegment {
  i32 image, row, pixel;        // elements from one image, row, pixel to the next
  i32 channels, shift;          // log2 of the upsampling
  i32 tiles;                    // of K, along the channels
};
static_assert(sizeof(ImageSegment) == 24);

template <int Segments> struct ImplicitArgs {
  const void* x[Segments];      // [N, H, W, Ci] each
  const void* w;                // [batches, M, K]
  void* partial;                // (tile, split, TileM, TileN) sums, where K is split
  u32* arrived;                 // (tile), 0 between launches
  ImageSegment segments[Segments];
  i64 w_row, w_batch;           // elements from one output channel's weights to the next's (K), from one batch's to the next's
  u32 m, n;                     // pixels of the output, its channels
  u32 tiles, tiles_n;           // of a batch; side by side
  i32 k_tiles, split_tiles;     // in all, and of a split
  Divider width, height;        // of the output
  i32 in_height, in_width;      // upsampled
  i32 stride[2], pad[2], dilation[2], taps[2];
};
static_assert(sizeof(ImplicitArgs<1>) == 160 && sizeof(ImplicitArgs<2>) == 160 + 32);

}  // namespace smelt::kernels
