// The argument of conv/implicit.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

/// What a batch of products is: a phase of a transposed convolution, or a group, whose channels begin behind those of the one before; or
/// several groups side by side, whose weights are zeros between one's channels and another's outputs.
enum class ImplicitBatches { none, phases, groups, joined };

/// Where window `o` begins along an axis. Of a transposed convolution with one of its phases: y's pixels o * stride + phase, of which
/// all have the same taps, the last of the filter's first; `dilation` apart in x, which is 1 where the stride is not.
template <bool Transposed>
SMELT_SHARED constexpr i32 implicit_first(i32 o, i32 stride, i32 pad, i32 taps, i32 dilation, i32 phase) {
  return Transposed ? o - (taps - 1) * dilation + (phase + pad) / stride : o * stride - pad;
}

/// Whether a phase has a tap less along an axis: the first of the others' is none of its own, and what lies under it is not read.
SMELT_SHARED constexpr bool lacks_first_tap(i32 stride, i32 pad, i32 all_taps, i32 phase) {
  return (phase + pad) % stride >= all_taps;
}

/// One of the images that are concatenated along their channels.
template <class T> struct ImageSegment {
  const T* x;                   // [N, H, W, Ci]; of a volume [N, D, H, W, Ci]
  i32 image, row, pixel;        // elements from one image, row, pixel to the next
  i32 channels, shift;          // Ci; log2 of the upsampling
  i32 tiles;                    // of K, along the channels
  i32 plane;                    // elements from a plane of a volume to the next
};
static_assert(sizeof(ImageSegment<void>) == 40);

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
  Divider depth;                // of a volume's output; what follows is along D
  i32 in_depth, stride_d, pad_d, dilation_d, taps_d;
  i32 all_taps[2], all_taps_d;  // transposed: how many phases have as many taps, along H, W; D
  i32 joined;                   // groups of a batch
  ImageSegment<T> segments[Segments];
};

/// Bytes of an ImplicitArgs, for a number of segments that the host knows at run time only: an ImplicitArgs of more begins
/// likewise.
SMELT_SHARED constexpr u64 implicit_bytes(int segments) {
  return 176 + sizeof(ImageSegment<void>) * static_cast<u64>(segments);
}
static_assert(sizeof(ImplicitArgs<void, void, 1>) == implicit_bytes(1) &&
              sizeof(ImplicitArgs<void, void, 8>) == implicit_bytes(8));

}  // namespace smelt::kernels
