// Interpolating Resize: y = sum of w * x over the taps of every axis that is resized.
//
//   x, y       [E0, …, ER-1, width], the elements of a row side by side, and as many in y as in x (movement/axes.h)
//   places     of each index of a resized axis Taps entries: offsets of its taps in x; the first is -1 where it lies outside of x
//   weights    likewise; a 0 ends the taps
//
// A thread computes C.vec elements of one row of y. Sums in A, in a fixed order. Launch: blocks of C.threads threads, a thread a
// chunk of a row.
#pragma once

#include "common/convert.cuh"
#include "movement/rows.cuh"

/// What a kernel is compiled for.
struct InterpolateConfig {
  int vec;                                                                  // elements of a thread
  int threads;                                                              // of a block
};

/// Taps: of each axis at most, innermost first; 0: the axis is not resized.
template <InterpolateConfig C, class T, class A, int... Taps> struct Interpolate {
  static constexpr int rank = sizeof...(Taps);

  /// beyond: the value of what lies outside of x.
  static __device__ __forceinline__ void run(const T* x, T* y, u32 chunks, const Divider& per_row, u32 width, const i64* places,
                                             const A* weights, const Axes<rank>& axes, A beyond) {
    const u32 chunk = blockIdx.x * static_cast<u32>(C.threads) + threadIdx.x;
    if (chunk >= chunks) return;
    u32 rest = per_row.quotient(chunk);
    const u32 column = (chunk - rest * per_row.divisor) * C.vec;
    RowTaps row;
    i64 from = column, to = column;
    i64 signs = 0;                                                          // negative: it lies outside of x along an axis
#pragma unroll
    for (int axis = 0; axis < rank; ++axis) {
      const u32 next = axes.extents[axis].quotient(rest), i = rest - next * axes.extents[axis].divisor;
      rest = next;
      to += i * axes.to[axis];
      if (taps(axis) == 0) {
        from += i * axes.from[axis];
        continue;
      }
      row.places[axis] = places + axes.table[axis] + i * taps(axis);
      row.weights[axis] = weights + axes.table[axis] + i * taps(axis);
      signs |= *row.places[axis];
    }
    A sum[C.vec] = {};                                                      // (vec) of (width)
    add<0>(sum, x, from, A(1), row, width - column);
    Vector<T, C.vec> out;                                                   // (vec) of (width)
#pragma unroll
    for (int e = 0; e < C.vec; ++e) out.at[e] = narrowed<T>(signs < 0 ? beyond : sum[e]);
    store<1>(y, to, 1, width - column, out);
  }

 private:
  static __device__ constexpr int taps(int axis) {
    constexpr int list[] = {Taps...};
    return list[axis];
  }
  /// Where the taps of a row of y begin, for each axis.
  struct RowTaps {
    const i64* places[rank];
    const A* weights[rank];
  };

  /// Adds what the taps of axis Axis and of those after it give, times w; they lie from `from` on.
  template <int Axis>
  static __device__ __forceinline__ void add(A (&sum)[C.vec], const T* x, i64 from, A w, const RowTaps& row, u32 count) {
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
