// Where the elements of strided views of one shape lie.
//
//   extents   [E0, …, ER-1], outermost first; the last in chunks of the kernel's vector
//   strides   of each view, elements from one index to the next along each axis; 0 where it repeats
#pragma once

#include "common/divide.cuh"

template <int Rank, int Views> struct Walk {
  u32 chunks;                                            // of all axes
  u32 last;                                              // elements along the innermost axis
  Divider extents[Rank > 1 ? Rank - 1 : 1];              // of axes R-1 … 1, in chunks along R-1
  i64 strides[Views][Rank];

  /// Offsets of each view where a chunk of `Width` elements begins; returns how many of them lie inside the innermost axis.
  template <int Width> __device__ __forceinline__ u32 locate(u32 chunk, i64 (&at)[Views]) const {
    u32 rest = chunk;
#pragma unroll
    for (int v = 0; v < Views; ++v) at[v] = 0;
    u32 begin = 0;
#pragma unroll
    for (int axis = Rank - 1; axis >= 0; --axis) {
      u32 index = rest;
      if (axis > 0) {
        const Divider& extent = extents[Rank - 1 - axis];
        const u32 quotient = extent.quotient(rest);
        index = rest - quotient * extent.divisor;
        rest = quotient;
      }
      if (axis == Rank - 1) begin = index *= Width;
#pragma unroll
      for (int v = 0; v < Views; ++v) at[v] += static_cast<i64>(index) * strides[v][axis];
    }
    return last - begin;
  }
};

/// Width elements of a view from an offset on, `count` of which there are at least. Step: 1 contiguous, aligned to the vector or 16
/// bytes; 0 one element for all; -1 any stride.
template <int Step, class T, int Width>
__device__ __forceinline__ void load(Vector<T, Width>& x, const T* view, i64 at, i64 stride, u32 count) {
  if (Step == 1 && count >= Width) {
    x = *reinterpret_cast<const Vector<T, Width>*>(view + at);
  } else if (Step == 0) {
    const T one = view[at];
#pragma unroll
    for (int i = 0; i < Width; ++i) x.at[i] = one;
  } else {
#pragma unroll
    for (int i = 0; i < Width; ++i)
      if (i < count) x.at[i] = view[at + i * stride];
  }
}

template <int Step, class T, int Width>
__device__ __forceinline__ void store(T* view, i64 at, i64 stride, u32 count, const Vector<T, Width>& x) {
  if (Step == 1 && count >= Width) {
    *reinterpret_cast<Vector<T, Width>*>(view + at) = x;
  } else {
#pragma unroll
    for (int i = 0; i < Width; ++i)
      if (i < count) view[at + i * stride] = x.at[i];
  }
}
