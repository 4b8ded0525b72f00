// Vectors of a strided view's elements: where they lie (pointwise/walk.h), and how they are loaded and stored.
#pragma once

#include "common/divide.cuh"
#include "kernels/pointwise/walk.h"

/// Width elements of a view from an offset on, `count` of which there are at least. Step: 1 contiguous, aligned to the vector or 16
/// bytes; 0 one element for all; -1 any stride.
template <int Step, class T, int Width>
__device__ __forceinline__ void load(Vector<T, Width>& x, const T* view, i64 at, i64 stride, u32 count) {
  if (Step == 1 && count >= Width) {
    words_of(x) = *reinterpret_cast<const WordsOf<Vector<T, Width>>*>(view + at);
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

/// Width elements of the row of a table that begins where `view` says at `at`, from the row's element `column` on; zeros where it says -1.
/// Rows are whole vectors of 16 elements.
template <class T, int Width>
__device__ __forceinline__ void load_indexed(Vector<T, Width>& x, const T* view, i64 at, u32 column) {
  static_assert(Width <= 16);
  const T begin = view[at];
  x = {};
  if (begin >= 0) words_of(x) = *reinterpret_cast<const WordsOf<Vector<T, Width>>*>(view + begin + column);
}

template <int Step, class T, int Width>
__device__ __forceinline__ void store(T* view, i64 at, i64 stride, u32 count, const Vector<T, Width>& x) {
  if (Step == 1 && count >= Width) {
    *reinterpret_cast<WordsOf<Vector<T, Width>>*>(view + at) = words_of(x);
  } else {
#pragma unroll
    for (int i = 0; i < Width; ++i)
      if (i < count) view[at + i * stride] = x.at[i];
  }
}
