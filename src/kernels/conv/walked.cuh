// Convolution of channels-last images as an implicit product, whose taps are walked by steps that the host made:
//
//   y[p, m] = Epilogue(sum over segments, groups of channels and taps of x[pixel(p, tap), channel] · w[m, segment, tap, channel])
//
//   p          (n, oh, ow) of the output, of a volume (n, od, oh, ow), in row-major order: the rows of the product; its columns are the
//              output channels m
//   pixel      h = oh * stride + kh * dilation - pad, w likewise, each divided by the segment's upsampling; outside of the image
//              zeros or `outside` is read
//   x          segments [N, H, W, Ci] of any strides, but 1 along the channels; read in turn, as if they were concatenated
//   K          runs over segments, then groups of `chunk` bytes of channels, then taps, then the bytes of a chunk; a line of a
//              stage has one chunk or several
//   w          packed by the host as the stages have it
//
// The main loop has no division and works out no predicate anew. All windows of a thread move alike from tap to tap: by steps
// that repeat with the filter's size, which are arguments. A window keeps where its first pixel lies and a mask, a bit for each of the
// filter's rows and columns that lies inside of the image; of a volume, the bits of the depth's taps stand behind those of the rows.
//
// The weights of a warp's columns are ordered so that each lane's sums are of neighbouring channels (walked_channel). So the
// program is applied to the sums where they lie, and its results are stored in accesses of up to 16 bytes, without a way through shared
// memory.
//
// Windows of an upsampled image move alike where they begin at the same place among the copies of a pixel: the steps are there once
// for each place.
//
// Where segments of integers have scales of their own, a segment's sums become floats when the loop leaves it: (sum + added) · scale
// is added to those of the segments before, in their order, and the next segment begins with zeros. K is not split then.
//
// Images of integers may lie in blocks of 32 channels, one block's pixels behind the other's: a chunk's channels then are in one block.
//
// Where K is split, blocks write their sums to a workspace as their threads have them. The last block to arrive at a tile adds
// them in the order of the splits: the same inputs give the same bits.
#pragma once

#include "gemm/tensor_tile.cuh"
#include "gemm/tile_loop.cuh"
#include "kernels/conv/walked.h"
#include "kernels/pointwise/epilogue.h"

/// Copies the left operand's tiles: a line's chunks of the TileM windows.
template <class Tile, WalkedConfig C> struct WalkedPixels {
  using T = typename Tile::A;
  static constexpr int line_bytes = Tile::CopyA::line_bytes, in_line = line_bytes / C.chunk;
  static constexpr bool volume = C.taps_d > 0;
  static constexpr int taps = (volume ? C.taps_d : 1) * C.taps_h * C.taps_w;
  static_assert(in_line == 1 || in_line <= taps, "a line has each tap once at most");
  using Copies = WalkedCopies<line_bytes, C.copy, Tile::threads>;
  static constexpr int each = (Tile::tile_m + Copies::step - 1) / Copies::step;
  static constexpr u32 never = 1u << 15;           // no window has this bit
  static constexpr int places = C.up * C.up * (volume ? C.up : 1);
  static_assert(C.taps_h + C.taps_d <= 15 && (!volume || !C.blocked));
  using Args = WalkedArgs<T, typename Tile::Sum, C.segments, taps * places>;

  const Args& g;
  i32 first[each];                                 // bytes from x to the pixel under the first tap, of this segment
  i32 steps[places > 1 ? each : 1];                // where the window's steps begin
  u32 mask[each];
  int segment = 0, tap, channel;                   // channel: this thread's first of the next line, in bytes
  int left = 0;                                    // tiles of this segment that are yet to be issued

  static __device__ __forceinline__ int line(int i) { return Copies::line(threadIdx.x, i); }

  /// Begins with the windows from `row` on and tile `k_tile` of K.
  __device__ __forceinline__ WalkedPixels(const Args& argument, u32 row, int k_tile) : g(argument) {
    if constexpr (C.segments > 1)
      while (segment + 1 < C.segments && k_tile >= g.segments[segment].tiles) k_tile -= g.segments[segment++].tiles;
    left = g.segments[segment].tiles - k_tile;
    begin(k_tile);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const u32 p = row + line(i);
      mask[i] = 0;
      int n, d, h, w;
      place(p, n, d, h, w);
      locate(i, n, d, h, w);
      if (p >= g.m || line(i) >= Tile::tile_m) continue;
#pragma unroll
      for (int k = 0; k < C.taps_h; ++k)
        if (static_cast<u32>(h + k * g.dilation[0]) < static_cast<u32>(g.in_height)) mask[i] |= 1u << k;
#pragma unroll
      for (int k = 0; k < C.taps_w; ++k)
        if (static_cast<u32>(w + k * g.dilation[1]) < static_cast<u32>(g.in_width)) mask[i] |= 1u << (16 + k);
      if constexpr (volume)
#pragma unroll
        for (int k = 0; k < C.taps_d; ++k)
          if (static_cast<u32>(d + k * g.dilation_d) < static_cast<u32>(g.in_depth)) mask[i] |= 1u << (C.taps_h + k);
    }
    rows = row;
  }

  /// Issues the copies of the next tile.
  __device__ __forceinline__ void operator()(u32 shared) {
    if constexpr (C.segments > 1)
      if (left == 0) next_segment();
    const WalkedSegment<T>& s = g.segments[segment];
    const WalkedTap step = g.taps[segment][taps == 1 && places == 1 ? 0 : tap];
    const u32 inside = channel < s.channels ? step.inside : never;
    // Where the channel lies in a pixel; in an image of blocks, of 8-bit integers.
    const i32 within = C.blocked ? channel / walked_block * s.block + channel % walked_block : channel;
    const i32 over = step.offset + within;         // of windows at the first place
    const char* const x = reinterpret_cast<const char*>(s.x);
    const u32 to = shared + at(0);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      if (Tile::tile_m % Copies::step != 0 && line(i) >= Tile::tile_m) break;
      const bool reads = (mask[i] & inside) == inside;
      const char* from = x + (first[i] + over);
      if constexpr (places > 1) from = x + (first[i] + within + g.taps[segment][steps[i] + tap].offset);
      // Copies whose lines are a multiple of eight apart lie alike among the permuted vectors.
      const u32 here = Copies::step % 8 == 0 ? to + i * Copies::step * line_bytes : shared + at(i);
      if constexpr (C.filled) copy_async<C.copy>(here, reads ? from : static_cast<const char*>(g.outside) + ((C.scaled ? segment * walked_outside : 0) + threadIdx.x % walked_outside) * 16, true);
      else copy_async<C.copy>(here, from, reads);
    }
    if constexpr (taps > 1) {
      tap += in_line;
      if (tap >= taps) tap -= taps, channel += C.chunk;
    } else {
      channel += C.chunk;
    }
    --left;
  }

 private:
  u32 rows;                                        // the first window

  static __device__ __forceinline__ u32 at(int i) {
    return tile_offset<line_bytes, Tile::a_reads>(line(i), Copies::byte(threadIdx.x));
  }
  /// Where window p begins.
  __device__ __forceinline__ void place(u32 p, int& n, int& d, int& h, int& w) const {
    const u32 row = g.width.quotient(p), image = g.height.quotient(row);                          // a volume's: a plane
    if constexpr (volume) {
      const u32 all = g.depth.quotient(image);
      n = static_cast<int>(all);
      d = static_cast<int>(image - all * g.depth.divisor) * g.stride_d - g.pad_d;
    } else {
      n = static_cast<int>(image), d = 0;
    }
    h = static_cast<int>(row - image * g.height.divisor) * g.stride[0] - g.pad[0];
    w = static_cast<int>(p - row * g.width.divisor) * g.stride[1] - g.pad[1];
  }
  /// Sets where window i begins in this segment: (h, w) of image n, upsampled; (d, h, w) of volume n.
  __device__ __forceinline__ void locate(int i, int n, int d, int h, int w) {
    const WalkedSegment<T>& s = g.segments[segment];
    if constexpr (places > 1) {
      first[i] = n * s.image + (h >> s.shift) * s.row + (w >> s.shift) * s.pixel;
      if constexpr (volume) first[i] += (d >> s.shift) * s.plane;
      steps[i] = walked_place(d, h, w, s.shift, C.up) * taps;
    } else {
      first[i] = n * s.image + h * s.row + w * s.pixel;
      if constexpr (volume) first[i] += d * s.plane;
    }
  }
  /// Of tile `k_tile` of this segment.
  __device__ __forceinline__ void begin(int k_tile) {
    const int byte = Copies::byte(threadIdx.x), chunk = k_tile * in_line + byte / C.chunk, group = chunk / taps;
    tap = chunk - group * taps;
    channel = group * C.chunk + byte % C.chunk;
  }
  __device__ __forceinline__ void next_segment() {
    ++segment;
    left = g.segments[segment].tiles;
    begin(0);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      int n, d, h, w;
      place(rows + line(i), n, d, h, w);
      locate(i, n, d, h, w);
    }
  }
};

/// Copies the right operand's tiles, which lie in memory as the stages have them.
template <class Tile> struct WalkedWeights {
  static constexpr int bytes = Tile::CopyB::tile_bytes, together = 16 * Tile::threads;
  const char* from;
  __device__ __forceinline__ explicit WalkedWeights(const void* w) : from(static_cast<const char*>(w) + threadIdx.x * 16) {}
  __device__ __forceinline__ void operator()(u32 shared) {
#pragma unroll
    for (int i = 0; i < (bytes + together - 1) / together; ++i) {
      if (bytes % together != 0 && i * together + threadIdx.x * 16 >= bytes) break;
      copy_async<16>(shared + threadIdx.x * 16 + i * together, from + i * together, true);
    }
    from += bytes;
  }
};

/// Adds the parts of a split K; false in all blocks but the last to arrive at the tile.
template <class Tile>
__device__ __forceinline__ bool add_splits(Tile& sums, char* shared, typename Tile::Sum* partial, u32* arrived) {
  using Four = Vector<typename Tile::Sum, 4>;
  constexpr int fours = Tile::rows * Tile::columns;
  Four* const parts = reinterpret_cast<Four*>(partial) +                    // (split, four sums, thread)
                      static_cast<i64>(blockIdx.x) * gridDim.y * fours * Tile::threads + threadIdx.x;
  const auto part = [&](u32 split, int i, int j) { return parts + (split * fours + i * Tile::columns + j) * Tile::threads; };
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
    for (int j = 0; j < Tile::columns; ++j)
      *part(blockIdx.y, i, j) = {sums.d[i][j][0], sums.d[i][j][1], sums.d[i][j][2], sums.d[i][j][3]};
  __threadfence();
  Tile::synchronize();
  u32* const last = reinterpret_cast<u32*>(shared);
  if (threadIdx.x == 0) *last = atomicInc(arrived + blockIdx.x, gridDim.y - 1) == gridDim.y - 1;
  Tile::synchronize();
  if (!*last) return false;
  __threadfence();
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
    for (int j = 0; j < Tile::columns; ++j) {
      Four sum = {};
#pragma unroll 4
      for (u32 s = 0; s < gridDim.y; ++s) {
        const Four one = past_l1(part(s, i, j));
#pragma unroll
        for (int e = 0; e < 4; ++e) sum.at[e] += one.at[e];
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) sums.d[i][j][e] = sum.at[e];
    }
  return true;
}

/// The sums of segments that have scales of their own.
template <class Tile, WalkedConfig C> struct ScaledSums {
  using Args = typename WalkedPixels<Tile, C>::Args;
  const Args& g;
  u32 column;                                      // the warp's first
  int segment = 0, end;                            // the first tile of K behind the segment
  float d[Tile::rows][Tile::columns][4] = {};

  __device__ __forceinline__ ScaledSums(const Args& argument, u32 first)
      : g(argument), column(first + Tile::first_column()), end(argument.segments[0].tiles) {}

  /// Tile t of K has been added to `sums`.
  __device__ __forceinline__ void operator()(Tile& sums, int t) {
    if (t + 1 != end) return;
    const WalkedScale* const scales = g.scales + segment * g.n;             // (N)
#pragma unroll
    for (int j = 0; j < Tile::columns; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const u32 c = column + walked_channel(j * 8 + Tile::lane() % 4 * 2 + e, C.width);
        const WalkedScale s = scales[c < g.n ? c : g.n - 1];
#pragma unroll
        for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
          for (int h = 0; h < 4; h += 2) {
            d[i][j][h + e] += static_cast<float>(sums.d[i][j][h + e] + s.added) * s.scale;
            sums.d[i][j][h + e] = 0;
          }
      }
    if (++segment < C.segments) end += g.segments[segment].tiles;
  }
};

/// Applies the program to the sums in registers and writes y. ByColumn: a bit for each operand that has one value a column.
/// Blocked: y's batches are its blocks of channels, and its columns those of a block.
template <class Tile, int Width, bool Whole, u32 ByColumn, bool Blocked, class Sum, class Epilogue>
__device__ __forceinline__ void finish_in_registers(const Sum (&d)[Tile::rows][Tile::columns][4], const Epilogue& epilogue, u32 m,
                                                    u32 n, u32 row, u32 column) {
  using Operands = typename Epilogue::Operands;
  constexpr int of_lane = 2 * Tile::columns / Width, halves = 2 * Tile::rows;
  constexpr int together = halves < 4 ? halves : 4;                         // rows whose operands are read at once
  static_assert(Epilogue::width == Width && of_lane * Width == 2 * Tile::columns && halves % together == 0);
  auto start = epilogue.start(0);
  const int lane = Tile::lane();
#pragma unroll
  for (int q = 0; q < of_lane; ++q) {
    u32 c = column + Tile::first_column() + q * (4 * Width) + lane % 4 * Width;                   // walked_channel
    if (c >= n) continue;
    const u32 count = Whole ? Width : n - c;
    if constexpr (Blocked) {
      static_assert(walked_block % Width == 0 && Whole);
      start = epilogue.start(c / walked_block);
      c %= walked_block;
    }
    Operands columns;                                                       // (Width) of (N)
    epilogue.template fetch_some<ByColumn>(columns, start, 0, c, count);
#pragma unroll
    for (int from = 0; from < halves; from += together) {
      Operands all[together];                                               // (rows) of (Width)
#pragma unroll
      for (int k = 0; k < together; ++k) {
        const u32 r = row + Tile::first_row() + (from + k) * 8 + lane / 4;
        all[k] = columns;
        epilogue.template fetch_some<~ByColumn>(all[k], start, r < m ? r : m - 1, c, count);
      }
#pragma unroll
      for (int k = 0; k < together; ++k) {
        const u32 r = row + Tile::first_row() + (from + k) * 8 + lane / 4;
        const int i = (from + k) / 2, h = (from + k) % 2 * 2;
        typename Epilogue::Sum v[Width];                                    // (Width) of a row
#pragma unroll
        for (int e = 0; e < Width; ++e) v[e] = d[i][q * (Width / 2) + e / 2][h + e % 2];
        if (r < m) epilogue.write(all[k], count, v);
      }
    }
  }
}

/// Launch: (tiles, splits) blocks of Tile::threads; Tile::shared_bytes of dynamic shared memory.
template <class Tile, WalkedConfig C, bool Split, u32 ByColumn, class Args, class Epilogue>
__device__ __forceinline__ void walked_conv(const WithEpilogue<Args, Epilogue>& a) {
  extern __shared__ __align__(128) char shared[];
  const Args& g = a.args;
  const u32 tile_m = blockIdx.x / g.tiles_n, tile_n = blockIdx.x - tile_m * g.tiles_n;
  const u32 row = tile_m * Tile::tile_m, column = tile_n * Tile::tile_n;
  const int begin = Split ? static_cast<int>(blockIdx.y) * g.split_tiles : 0;                     // tiles of K
  const int k_tiles = Split && g.k_tiles - begin > g.split_tiles ? g.split_tiles : g.k_tiles - begin;

  WalkedPixels<Tile, C> pixels(g, row, begin);                                                    // (TileM, line)
  const i64 stage = static_cast<i64>(tile_n) * g.k_tiles + begin;
  WalkedWeights<Tile> weights(static_cast<const char*>(g.w) + stage * Tile::CopyB::tile_bytes);   // (TileN, line)
  Tile sums;                                                                                      // (TileM, TileN)
  const auto issue = [&](u32 to_a, u32 to_b, int) {
    pixels(to_a);
    weights(to_b);
  };
  if constexpr (C.scaled) {
    static_assert(!Split, "the order of the segments is that of their scaled sums");
    ScaledSums<Tile, C> scaled(g, column);
    multiply_tiles(sums, shared, k_tiles, issue, [&](int t) { scaled(sums, t); });
    finish_in_registers<Tile, C.width, C.whole, ByColumn, C.blocked>(scaled.d, a.epilogue, g.m, g.n, row, column);
  } else {
    multiply_tiles(sums, shared, k_tiles, issue);
    if constexpr (Split)
      if (!add_splits(sums, shared, g.partial, g.arrived)) return;
    finish_in_registers<Tile, C.width, C.whole, ByColumn, C.blocked>(sums.d, a.epilogue, g.m, g.n, row, column);
  }
}
