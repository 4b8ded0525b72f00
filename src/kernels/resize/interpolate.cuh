// Interpolating Resize: y = sum of w * x over the taps of every axis that is resized.
//
//   x, y       [E0, …, ER-1, width]; the elements of a row are contiguous, and x and y have as many (movement/axes.h)
//   places     Taps entries for each index of a resized axis: the offsets of its taps in x; the first is -1 where the index lies
//              outside of x
//   weights    likewise; a 0 ends the taps
//
// A thread computes a chunk: C.vec elements of one row of y. Sums are of type A, in a fixed order.
//
// Launch: one thread per chunk, blocks of C.threads.
#pragma once

#include "common/convert.cuh"
#include "kernels/resize/interpolate.h"
#include "movement/rows.cuh"

/// Taps: the most that an index of each axis has, innermost axis first; 0: the axis is not resized.
template <InterpolateConfig C, int... Taps> struct Interpolate {
  static constexpr int rank = sizeof...(Taps);

  template <class T, class A> static __device__ __forceinline__ void run(const InterpolateArgs<T, A, rank>& a) {
    const u32 chunk = blockIdx.x * static_cast<u32>(C.threads) + threadIdx.x;
    if (chunk >= a.chunks) return;
    u32 rest = a.per_row.quotient(chunk);
    const u32 column = (chunk - rest * a.per_row.divisor) * C.vec;
    RowTaps<A> row;
    i64 from = column, to = column;
    i64 signs = 0;                                                          // negative: outside of x along an axis
#pragma unroll
    for (int axis = 0; axis < rank; ++axis) {
      const u32 next = a.axes.extents[axis].quotient(rest), i = rest - next * a.axes.extents[axis].divisor;
      rest = next;
      to += i * a.axes.to[axis];
      if (taps(axis) == 0) {
        from += i * a.axes.from[axis];
        continue;
      }
      row.places[axis] = a.places + a.axes.table[axis] + i * taps(axis);
      row.weights[axis] = a.weights + a.axes.table[axis] + i * taps(axis);
      signs |= *row.places[axis];
    }
    A sum[C.vec] = {};                                                      // (vec) of (width)
    add<0>(sum, a.x, from, A(1), row, a.width - column);
    Vector<T, C.vec> out;                                                   // (vec) of (width)
#pragma unroll
    for (int e = 0; e < C.vec; ++e) out.at[e] = narrowed<T>(signs < 0 ? a.beyond : sum[e]);
    store<1>(a.y, to, 1, a.width - column, out);
  }

 private:
  static __device__ constexpr int taps(int axis) {
    constexpr int list[] = {Taps...};
    return list[axis];
  }
  /// Where the taps of a row of y begin, for each axis.
  template <class A> struct RowTaps {
    const i64* places[rank];
    const A* weights[rank];
  };

  /// Adds w times the interpolation along axis Axis and the axes after it, of what begins at x[from].
  template <int Axis, class T, class A>
  static __device__ __forceinline__ void add(A (&sum)[C.vec], const T* x, i64 from, A w, const RowTaps<A>& row, u32 count) {
    if constexpr (Axis == rank) {
      Vector<T, C.vec> v;                                                   // (vec) of (width)
      load<1>(v, x, from, 1, count);
#pragma unroll
      for (int e = 0; e < C.vec; ++e) sum[e] += w * widened<A>(v.at[e]);
    } else if constexpr (taps(Axis) == 0) {
      add<Axis + 1>(sum, x, from, w, row, count);
    } else {
#pragma unroll taps(Axis) <= 4 ? taps(Axis) : 1
      for (int a = 0; a < taps(Axis) && row.weights[Axis][a] != 0; ++a)
        add<Axis + 1>(sum, x, from + row.places[Axis][a], w * row.weights[Axis][a], row, count);
    }
  }
};
