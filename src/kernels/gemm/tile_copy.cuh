// An operand's tile on its way from global to shared memory: Lines lines of Line elements that lie side by side in memory.
//
//   KMajor     a line runs along K: lines are rows of a, or columns of b          (TileM or TileN, TileK)
//   otherwise  a line runs along M or N: lines are steps of K                     (TileK, TileM or TileN)
//
// Copies are of Vec elements each. Vec = 1 takes any distance between a line's elements. What lies outside of the operand is
// filled with zeros.
#pragma once

#include "common/copy_async.cuh"

/// What reads a tile: vectors of eight neighbouring lines at once (ldmatrix), single words of four neighbouring lines (tf32 along
/// M or N), or vectors of every fourth line (float along K). Its 16-byte vectors are permuted so that this meets no bank twice.
enum class Reads { neighbours, words, every_fourth };

template <int LineBytes, Reads How> __device__ __forceinline__ u32 tile_offset(u32 line, u32 byte) {
  constexpr u32 last = LineBytes / 16 - 1;
  if constexpr (How == Reads::neighbours) return swizzled<LineBytes>(line, byte / 16) + byte % 16;
  else if constexpr (How == Reads::words) return line * LineBytes + ((byte / 16 ^ ((line & 3) << 1 & last)) << 4) + byte % 16;
  else return line * LineBytes + ((byte / 16 ^ (line >> 2 & 7 & last)) << 4) + byte % 16;
}

template <class T, bool KMajor, int Lines, int Line, Reads How, int Vec, int Threads> struct TileCopy {
  static constexpr bool k_major = KMajor;
  static constexpr int size = sizeof(T), line_bytes = Line * size, tile_bytes = Lines * line_bytes;
  static constexpr int line_copies = Line / Vec, copies = Lines * line_copies, each = (copies + Threads - 1) / Threads;
  static_assert(Line % Vec == 0 && (Threads % line_copies == 0 || line_copies % Threads == 0));

  const T* from;             // this thread's first element of the next tile
  i64 line_step, element_step, tile_step;
  int lines_left, elements_left;   // of those along M or N, from the tile's first

  /// `base`: the tile's first element; `line`, `element`: elements from one to the next; `left`: rows of a (columns of b) from
  /// the tile's first on.
  __device__ __forceinline__ TileCopy(const T* base, i64 line, i64 element, u32 left)
      : line_step(line), element_step(Vec == 1 ? element : 1), tile_step(KMajor ? Line * element_step : Lines * line) {
    from = base + line_of(0) * line_step + element_of(0) * element_step;
    lines_left = KMajor ? left : Lines;
    elements_left = KMajor ? Line : left;
  }
  static __device__ __forceinline__ int line_of(int i) {
    if constexpr (line_copies <= Threads) return static_cast<int>(threadIdx.x) / line_copies + i * (Threads / line_copies);
    else return i / (line_copies / Threads);
  }
  static __device__ __forceinline__ int element_of(int i) {
    if constexpr (line_copies <= Threads) return static_cast<int>(threadIdx.x) % line_copies * Vec;
    else return (static_cast<int>(threadIdx.x) + i % (line_copies / Threads) * Threads) * Vec;
  }

  /// Issues the copies of the next tile, of which `k_left` steps of K lie inside.
  __device__ __forceinline__ void operator()(u32 shared, int k_left) {
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int line = line_of(i), element = element_of(i);
      if (copies % Threads != 0 && line >= Lines) break;
      const bool inside = line < (KMajor ? lines_left : k_left) && element < (KMajor ? k_left : elements_left);
      const T* at = from + (line - line_of(0)) * line_step + (element - element_of(0)) * element_step;
      copy_async<Vec * size>(shared + tile_offset<line_bytes, How>(line, element * size), at, inside);
    }
    from += tile_step;
  }
};
