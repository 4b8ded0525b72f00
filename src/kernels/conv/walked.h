// The constants and the argument of conv/walked.cuh, and how its tile lies in memory: which copies a thread issues, and which
// sums it has. For g++ and for NVRTC: the host packs weights by it, and tests count the banks that it meets.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

/// How often what is read outside of an image lies in memory: all threads of all blocks reading the same 16 bytes wait for one slice of L2.
constexpr int walked_outside = 256;

/// Channels of a block, where images lie in blocks.
constexpr int walked_block = 32;

struct WalkedConfig {
  int taps_h, taps_w;           // of the filter, 15 at most along either axis
  int taps_d;                   // along the depth of a volume, with those of H 15 at most; 0: an image
  int chunk;                    // bytes of a tap's channels that lie side by side along K; 16, 32, … up to a line
  int copy;                     // bytes of a copy of pixels: 4, 8 or 16
  int width;                    // neighbouring channels of y that a lane has side by side
  bool whole;                   // y's channels are a multiple of it
  bool filled;                  // pixels outside of the image read as `outside` points to, else as zeros
  int segments;
  int up;                       // the largest factor that an image is upsampled by, 1: none
  bool scaled;                  // each segment's sums are scaled by its own numbers, and added as floats
  bool blocked;                 // x and y lie in blocks of walked_block channels: [N, C / 32, H, W, 32]
};

/// A step from a window's first pixel to the pixel under a tap.
struct WalkedTap {
  i32 offset;                   // bytes
  u32 inside;                   // bits that a window's mask has where the pixel lies inside: 1 << kh | 1 << (16 + kw), of a volume
                                // | 1 << (taps_h + kd)
};
static_assert(sizeof(WalkedTap) == 8);

/// One of the images that are concatenated along their channels, of the same height and width once they are upsampled.
template <class T> struct WalkedSegment {
  const T* x;                   // [N, H, W, Ci]; of a volume [N, D, H, W, Ci]
  i32 image, row, pixel;        // bytes from one to the next
  i32 channels;                 // bytes of a pixel's
  i32 tiles;                    // of K
  i32 shift;                    // log2 of the upsampling
  i32 block;                    // bytes from a block of channels to the next, where they lie so
  i32 plane;                    // bytes from a plane of a volume to the next
};
static_assert(sizeof(WalkedSegment<void>) == 40);

/// Of a segment and an output channel: what is added to its sum, and what that is then multiplied by.
struct WalkedScale {
  i32 added;
  float scale;
};
static_assert(sizeof(WalkedScale) == 8);

/// T: the elements' type, Sum: the sums'; void on the host. Taps: steps that a segment has, those of a window whose first pixel is
/// the first of its upsampled ones, then those of the others (walked_place).
template <class T, class Sum, int Segments, int Taps> struct WalkedArgs {
  const void* w;                // (tile of N, tile of K, TileN, line) bytes as a stage has them
  const void* outside;          // (segment, walked_outside) of 16 bytes
  const WalkedScale* scales;    // (segment, N), where segments are scaled
  Sum* partial;                 // (tile, split, four sums, thread) of them, where K is split
  u32* arrived;                 // (tile), 0 between launches
  u32 m, n;                     // pixels of the output, its channels
  u32 tiles_n;
  i32 k_tiles, split_tiles;     // in all, and of a split
  Divider width, height;        // of the output
  i32 in_height, in_width;
  i32 stride[2], pad[2], dilation[2];                                       // along H, W
  Divider depth;                // of a volume's output; what follows is along D
  i32 in_depth, stride_d, pad_d, dilation_d;
  WalkedSegment<T> segments[Segments];
  WalkedTap taps[Segments][Taps];
};

/// Which of the `up` by `up` places among the copies of a pixel, of a volume `up` times as many, a window's first one has: (d, h, w) is
/// where it begins, upsampled; d is 0 of an image.
SMELT_SHARED constexpr int walked_place(int d, int h, int w, int shift, int up) {
  const int mask = (1 << shift) - 1;
  return ((d & mask) * up + (h & mask)) * up + (w & mask);
}

/// Bytes of a WalkedArgs, for numbers that the host knows at run time only.
SMELT_SHARED constexpr u64 walked_bytes(int segments, int taps) {
  return 144 + sizeof(WalkedSegment<void>) * static_cast<u64>(segments) +
         sizeof(WalkedTap) * static_cast<u64>(segments) * static_cast<u64>(taps);
}
static_assert(sizeof(WalkedArgs<void, void, 1, 1>) == walked_bytes(1, 1) &&
              sizeof(WalkedArgs<void, void, 3, 9>) == walked_bytes(3, 9));

/// The copies of a tile's pixels: lines of LineBytes, Copy bytes each, by Threads threads, whole lines at a time.
template <int LineBytes, int Copy, int Threads> struct WalkedCopies {
  static constexpr int of_line = LineBytes / Copy, step = Threads / of_line;
  static_assert(Threads % of_line == 0);
  static SMELT_SHARED constexpr int line(int thread, int i) { return thread / of_line + i * step; }
  static SMELT_SHARED constexpr int byte(int thread) { return thread % of_line * Copy; }
};

/// The output channel, of a warp's part of the tile, whose weights are column `column` of its products. A lane has columns 2t and
/// 2t + 1 of every eight (t = lane % 4); so its channels lie `width` side by side, and nothing need be exchanged before they are
/// stored: channel = (j / (width/2)) · 4 width + t · width + (j mod (width/2)) · 2 + e of column 8 j + 2 t + e.
SMELT_SHARED constexpr int walked_channel(int column, int width) {
  const int j = column / 8, t = column % 8 / 2, e = column % 2, pairs = width / 2;
  return j / pairs * (4 * width) + t * width + j % pairs * 2 + e;
}

}  // namespace smelt::kernels
