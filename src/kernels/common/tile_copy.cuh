// A tile's way from global to shared memory: which of its copies a thread issues, and where they lie so that what reads the tile
// meets no bank twice. What the lines of a tile are, and which of them exist, is the caller's: an operand's rows or columns
// (gemm/operand_copy.cuh), the pixels under a convolution's tap (conv/implicit.cuh), keys and values (attention/flash.cuh).
#pragma once

#include "common/copy_async.cuh"
#include "kernels/common/line_shares.h"

/// Which copies of a tile a thread issues: Lines lines of LineCopies copies each, by Threads threads. Neighbouring threads have
/// neighbouring copies of a line.
template <int Lines, int LineCopies, int Threads> struct TileThreads {
  static constexpr bool whole_lines = LineCopies <= Threads;
  static constexpr int step = whole_lines ? Threads / LineCopies : 1;                        // lines that are copied at a time
  static constexpr int each = whole_lines ? (Lines + step - 1) / step : Lines * (LineCopies / Threads);   // copies of a thread
  static constexpr bool all_copy = all_threads_copy(LineCopies, Threads);                    // else the last threads have none
  static_assert(whole_lines || LineCopies % Threads == 0);

  /// Of this thread's i-th copy. Int: i32 or u32, what the caller counts in.
  template <class Int = i32> static __device__ __forceinline__ Int line(int i) {
    if constexpr (whole_lines) return static_cast<Int>(threadIdx.x) / LineCopies + i * step;
    else return i / (LineCopies / Threads);
  }
  template <class Int = i32> static __device__ __forceinline__ Int copy(int i) {
    if constexpr (whole_lines) return static_cast<Int>(threadIdx.x) % LineCopies;
    else return static_cast<Int>(threadIdx.x) + i % (LineCopies / Threads) * Threads;
  }
  /// Whether the i-th copy lies behind the tile's last line, and so do all after it.
  template <class Int = i32> static __device__ __forceinline__ bool beyond(int i) {
    return Lines % step != 0 && line<Int>(i) >= Int(Lines);
  }
};

/// What reads a tile: vectors of eight neighbouring lines at once (ldmatrix), single words of four neighbouring lines (tf32 along
/// M or N), vectors of every fourth line (float along K), or of two neighbouring lines of every four (ldmatrix_trans of bytes along M or
/// N). Its 16-byte vectors are permuted so that this meets no bank twice.
enum class Reads { neighbours, words, every_fourth, pairs };

/// Where byte `byte` of line `line` lies in a tile of lines of LineBytes.
template <int LineBytes, Reads How> __device__ __forceinline__ u32 tile_offset(u32 line, u32 byte) {
  constexpr u32 last = LineBytes / 16 - 1;
  if constexpr (How == Reads::neighbours) return swizzled<LineBytes>(line, byte / 16) + byte % 16;
  else if constexpr (How == Reads::pairs) return swizzled_pairs<LineBytes>(line, byte / 16) + byte % 16;
  else if constexpr (How == Reads::words) return line * LineBytes + ((byte / 16 ^ ((line & 3) << 1 & last)) << 4) + byte % 16;
  else return line * LineBytes + ((byte / 16 ^ (line >> 2 & 7 & last)) << 4) + byte % 16;
}
