// The argument of movement/rows.cuh, and the maps that it takes.
//
//   Map       From2 operator()(u32 row): where the row lies in x and goes in y, in elements; from < 0: it is filled;
//             to < 0: it is left out
#pragma once

#include "kernels/movement/axes.h"
#include "kernels/pointwise/walk.h"

namespace smelt::kernels {

/// T: an unsigned integer of an element's size; void on the host.
template <class T> struct MovedRows {
  const T* x;
  T* y;
  u64 fill;                     // an element
  Divider per_row;              // chunks of a row
  u32 chunks, width;            // of all rows; elements of a row
  u32 padding;
};
static_assert(sizeof(MovedRows<void>) == 48);

template <class T, class Map> struct RowMoveArgs {
  MovedRows<T> rows;
  Map map;
};

/// The same with what rows are filled by in memory.
template <class T, class Map> struct FilledMoveArgs {
  RowMoveArgs<T, Map> move;
  const T* fill;                // an element
};

struct From2 {
  i64 from, to;
};

#ifdef __CUDACC__
/// A negative index counts from the end; -1 for one outside of [-extent, extent).
template <class I> __device__ __forceinline__ i64 place_of(I index, i64 extent) {
  const i64 i = static_cast<i64>(index) + (index < I(0) ? extent : 0);
  return i < 0 || i >= extent ? -1 : i;
}
#endif

/// Takes rows [outer, count] of x [outer, extent] by an index. I: the index's type; void on the host.
template <class I> struct Gather {
  const I* index;               // [count]
  i64 extent, width;
  Divider count;
  u32 padding;
#ifdef __CUDACC__
  __device__ __forceinline__ From2 operator()(u32 row) const {
    const u32 o = count.quotient(row);
    const i64 i = place_of(index[row - o * count.divisor], extent);
    return {i < 0 ? -1 : (o * extent + i) * width, row * width};
  }
#endif
};
static_assert(sizeof(Gather<void>) == 40);

/// Names rows of x [batch, E0, …, width] by an index of which `rows` rows are one batch. Counts in rows of x.
template <class I, int Depth> struct AtNd {
  const I* index;               // [batch, rows, Depth]
  i64 batch, extents[Depth], strides[Depth];
  Divider rows;
  u32 padding;
#ifdef __CUDACC__
  /// Which row of x the row of the index names; -1 for none.
  __device__ __forceinline__ i64 operator()(u32 row) const {
    i64 at = rows.quotient(row) * batch;
#pragma unroll
    for (int d = 0; d < Depth; ++d) {
      const i64 i = place_of(index[static_cast<i64>(row) * Depth + d], extents[d]);
      if (i < 0) return -1;
      at += i * strides[d];
    }
    return at;
  }
#endif
};
static_assert(sizeof(AtNd<void, 3>) == 80);

/// Names elements of x by an index of any extents: the index's value along one axis, its own place along the others.
template <class I, int Rank> struct AtElement {
  const I* index;               // [E0, …, ER-1]
  i64 extent, step;             // of the axis in x
  Walk<Rank, 1> elsewhere;
#ifdef __CUDACC__
  __device__ __forceinline__ i64 operator()(u32 row) const {
    i64 at[1];
    elsewhere.template locate<1>(row, at);
    const i64 i = place_of(index[row], extent);
    return i < 0 ? -1 : at[0] + i * step;
  }
#endif
};
static_assert(sizeof(AtElement<void, 2>) == 24 + walk_bytes(2, 1));

/// Gathers what `at` names.
template <class At> struct Gathered {
  i64 width;
  At at;
#ifdef __CUDACC__
  __device__ __forceinline__ From2 operator()(u32 row) const {
    const i64 r = at(row);
    return {r < 0 ? -1 : r * width, row * width};
  }
#endif
};

/// Gives each axis of y its own places in x: offsets of a table (-1: outside), or a stride.
template <int Rank> struct ByAxes {
  const i64* tables;
  Axes<Rank> axes;
#ifdef __CUDACC__
  __device__ __forceinline__ From2 operator()(u32 row) const {
    From2 at{0, 0};
    bool outside = false;
    u32 rest = row;
#pragma unroll
    for (int d = 0; d < Rank; ++d) {
      const u32 next = axes.extents[d].quotient(rest);
      const u32 i = rest - next * axes.extents[d].divisor;
      rest = next;
      const bool listed = axes.table[d] >= 0;
      const i64 part = listed ? tables[axes.table[d] + i] : i * axes.from[d];
      outside |= listed && part < 0;
      at.from += part;
      at.to += i * axes.to[d];
    }
    if (outside) at.from = -1;
    return at;
  }
#endif
};

/// Keeps the k-th diagonal and what lies above it, or below it.
template <bool Upper> struct Triangle {
  const i64* diagonal;          // k, one element; null: number
  i64 number;
  Divider columns, rows;
#ifdef __CUDACC__
  __device__ __forceinline__ From2 operator()(u32 element) const {
    const i64 k = diagonal ? *diagonal : number;
    const u32 line = columns.quotient(element), c = element - line * columns.divisor;
    const u32 r = line - rows.quotient(line) * rows.divisor;
    const i64 d = static_cast<i64>(c) - static_cast<i64>(r);
    return {(Upper ? d >= k : d <= k) ? static_cast<i64>(element) : -1, element};
  }
#endif
};
static_assert(sizeof(Triangle<true>) == 40);

/// Takes x's one element where the column is k further than the row.
struct Diagonal {
  i64 k;
  Divider columns;
  u32 padding;
#ifdef __CUDACC__
  __device__ __forceinline__ From2 operator()(u32 element) const {
    const u32 r = columns.quotient(element), c = element - r * columns.divisor;
    return {static_cast<i64>(c) - static_cast<i64>(r) == k ? 0 : -1, element};
  }
#endif
};
static_assert(sizeof(Diagonal) == 24);

/// Makes y [outer, depth, inner] of values [off, on]: on where the place along the depth is the index.
template <class I> struct OneHot {
  const I* index;               // [outer, inner]
  Divider inner, depth;
#ifdef __CUDACC__
  __device__ __forceinline__ From2 operator()(u32 element) const {
    const u32 line = inner.quotient(element), i = element - line * inner.divisor;
    const u32 o = depth.quotient(line), place = line - o * depth.divisor;
    i64 at = static_cast<i64>(index[o * inner.divisor + i]);
    if (at < 0) at += depth.divisor;
    return {at == place, element};
  }
#endif
};
static_assert(sizeof(OneHot<void>) == 32);

/// Reverses the first lengths[sample] steps of each sample of x [first, second, width]: samples lie along one of the first two
/// axes, steps along the other. All steps where a length is more, which the processor refuses.
template <bool BatchFirst> struct Reversed {
  const i64* lengths;           // [samples]
  i64 width;
  Divider second;
  u32 steps;                    // along the other axis
#ifdef __CUDACC__
  __device__ __forceinline__ From2 operator()(u32 row) const {
    const u32 a = second.quotient(row), b = row - a * second.divisor;
    const i64 given = lengths[BatchFirst ? a : b], time = BatchFirst ? b : a, length = given > steps ? steps : given;
    const i64 back = time < length ? length - 1 - time : time;
    return {(BatchFirst ? a * static_cast<i64>(second.divisor) + back : back * second.divisor + b) * width, row * width};
  }
#endif
};
static_assert(sizeof(Reversed<true>) == 32);

/// Puts updates [outer, length, width] into y [outer, extent, width], from each sample's own place on.
struct Placed {
  const i64* begin;             // [samples]; null: zeros
  i64 extent, width;
  Divider length, samples;      // samples: rows of outer that are one sample
  bool circular;
  u8 padding[7];
#ifdef __CUDACC__
  __device__ __forceinline__ From2 operator()(u32 row) const {
    const u32 o = length.quotient(row), i = row - o * length.divisor;
    i64 place = (begin ? begin[samples.quotient(o)] : 0) + i;
    if (circular) place = (place % extent + extent) % extent;
    return {row * width, place < 0 || place >= extent ? -1 : (o * extent + place) * width};
  }
#endif
};
static_assert(sizeof(Placed) == 56);

/// Fills every row.
struct Filled {
  i64 width;
#ifdef __CUDACC__
  __device__ __forceinline__ From2 operator()(u32 row) const { return {-1, row * width}; }
#endif
};
static_assert(sizeof(Filled) == 8);

}  // namespace smelt::kernels
