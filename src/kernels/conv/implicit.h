// The argument of conv/implicit.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

/// One of the images that are concatenated along their channels.
template <class T> struct ImageSegment {
  const T* x;                   // [N, H, W, Ci]
  i32 image, row, pixel;        // elements from one image, row, pixel to the next
  i32 channels, shift;          // Ci; log2 of the upsampling
  i32 tiles;                    // of K, along the channels
};
static_assert(sizeof(ImageSegment<void>) == 32);

/// T: the elements' type, Sum: the sums'; void on the host.
template <class T, class Sum, int Segments> struct ImplicitArgs {
  const T* w;                   // [batches, M, K]
  Sum* partial;                 // (tile, split, TileM, TileN) sums, where K is split
  u32* arrived;                 // (tile), 0 between launches
  i64 w_row, w_batch;           // elements from one output channel's weights to the next's (K), from one batch's to the next's
  u32 m, n;                     // pixels of the output, its channels
  u32 tiles, tiles_n;           // of a batch; side by side
  i32 k_tiles, split_tiles;     // in all, and of a split
  Divider width, height;        // of the output
  i32 in_height, in_width;      // upsampled
  i32 stride[2], pad[2], dilation[2], taps[2];                              // along H, W
  ImageSegment<T> segments[Segments];
};

/// Bytes of an ImplicitArgs, for a number of segments that the host knows at run time only: an ImplicitArgs of more begins
/// likewise.
SMELT_SHARED constexpr u64 implicit_bytes(int segments) {
  return 128 + sizeof(ImageSegment<void>) * static_cast<u64>(segments);
}
static_assert(sizeof(ImplicitArgs<void, void, 1>) == implicit_bytes(1) &&
              sizeof(ImplicitArgs<void, void, 8>) == implicit_bytes(8));

}  // namespace smelt::kernels
