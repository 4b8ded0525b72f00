// Copies an operand's tiles from global to shared memory. A tile has Lines lines of Line elements; the elements of a line are
// contiguous in memory where Vec > 1.
//
//   KMajor     a line runs along K: lines are rows of a, or columns of b          (TileM or TileN, TileK)
//   otherwise  a line runs along M or N: lines are steps of K                     (TileK, TileM or TileN)
//
// A copy takes Vec elements, -Vec of them at any address where Vec is negative: 16 bytes, by way of registers. Elements outside of the
// operand become zeros.
#pragma once

#include "common/copy_anywhere.cuh"
#include "common/tile_copy.cuh"

template <class T, bool KMajor, int Lines, int Line, Reads How, int Vec, int Threads> struct OperandCopy {
  static constexpr bool k_major = KMajor;
  static constexpr int size = sizeof(T), line_bytes = Line * size, tile_bytes = Lines * line_bytes;
  static constexpr bool anywhere = Vec < 0;
  static constexpr int vec = anywhere ? -Vec : Vec;
  static_assert(Line % vec == 0 && (!anywhere || (size == 1 && vec == 16)));
  using Share = TileThreads<Lines, Line / vec, Threads>;
  static constexpr bool all_copy = Share::all_copy;                         // else tensor maps alone bring it

  const T* from;             // this thread's first element of the next tile
  i64 line_step, element_step, tile_step;
  int lines_left, elements_left;   // inside of the operand, from the tile's first on; along K only the tile's extent

  /// `base`: the first tile's first element; `line`, `element`: elements from one line, or element of a line, to the next;
  /// `left`: rows of a (columns of b) inside of the operand, from the tile's first on.
  __device__ __forceinline__ OperandCopy(const T* base, i64 line, i64 element, u32 left)
      : line_step(line), element_step(vec == 1 ? element : 1), tile_step(KMajor ? Line * element_step : Lines * line) {
    static_assert(all_copy);
    from = base + Share::line(0) * line_step + element_of(0) * element_step;
    lines_left = KMajor ? left : Lines;
    elements_left = KMajor ? Line : left;
  }
  /// Issues the copies of the next tile; `k_left` steps of K are inside of the operand, from the tile's first on.
  __device__ __forceinline__ void operator()(u32 shared, int k_left) {
    if constexpr (anywhere) {
      copy_anywhere(shared, k_left);
    } else {
#pragma unroll
      for (int i = 0; i < Share::each; ++i) {
        if (Share::beyond(i)) break;
        const int line = Share::line(i), element = element_of(i);
        const bool inside = line < (KMajor ? lines_left : k_left) && element < (KMajor ? k_left : elements_left);
        const T* at = from + (line - Share::line(0)) * line_step + (element - element_of(0)) * element_step;
        copy_async<vec * size>(shared + tile_offset<line_bytes, How>(line, element * size), at, inside);
      }
    }
    from += tile_step;
  }

 private:
  static __device__ __forceinline__ int element_of(int i) { return Share::copy(i) * vec; }
  /// The same: the loads of up to four copies, then their stores.
  __device__ __forceinline__ void copy_anywhere(u32 shared, int k_left) {
    constexpr int together = 4;
#pragma unroll
    for (int first = 0; first < Share::each; first += together) {
      uint4 x[together];
#pragma unroll
      for (int j = 0; j < together; ++j) {
        const int i = first + j;
        if (i >= Share::each || Share::beyond(i)) break;
        const int line = Share::line(i), element = element_of(i);
        const bool inside = line < (KMajor ? lines_left : k_left);
        x[j] = load_anywhere(from + (line - Share::line(0)) * line_step + (element - element_of(0)),
                             inside ? (KMajor ? k_left : elements_left) - element : 0);
      }
#pragma unroll
      for (int j = 0; j < together; ++j) {
        const int i = first + j;
        if (i >= Share::each || Share::beyond(i)) break;
        ptx::st_shared_v4_u32(shared + tile_offset<line_bytes, How>(Share::line(i), element_of(i)), x[j].x, x[j].y, x[j].z, x[j].w);
      }
    }
  }
};
