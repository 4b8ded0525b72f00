// Rows of elements moved to where a map says: y[to + c] = x[from + c], c of a row's width.
//
//   x, y      any tensors of one element type, of which only the size matters
//   Map       From operator()(u32 row): where the row lies in x and goes in y, in elements; from < 0: filled; to < 0: left out
//
// A thread moves Vec elements of one row. An index that lies outside of its axis reads nothing: the row is filled.
#pragma once

#include "kernels/movement/axes.h"
#include "pointwise/walk.cuh"

struct From2 {
  i64 from, to;
};

template <class T, int Vec, class Map>
__device__ __forceinline__ void move_rows(const T* x, T* y, u32 chunks, const Divider& per_row, u32 width, T fill,
                                          const Map& map) {
  const u32 chunk = blockIdx.x * blockDim.x + threadIdx.x;
  if (chunk >= chunks) return;
  const u32 row = per_row.quotient(chunk), c = (chunk - row * per_row.divisor) * Vec;
  const From2 at = map(row);
  if (at.to < 0) return;
  Vector<T, Vec> v;                                                         // (Vec) of a row
  if (at.from >= 0) {
    load<1>(v, x, at.from + c, 1, width - c);
  } else {
#pragma unroll
    for (int e = 0; e < Vec; ++e) v.at[e] = fill;
  }
  store<1>(y, at.to + c, 1, width - c, v);
}

/// A negative index counts from the end; -1 for one outside of [-extent, extent).
template <class I> __device__ __forceinline__ i64 place_of(I index, i64 extent) {
  const i64 i = static_cast<i64>(index) + (index < I(0) ? extent : 0);
  return i < 0 || i >= extent ? -1 : i;
}

/// Rows [outer, count] of x [outer, extent], by index [count].
template <class I> struct Gather {
  const I* index;
  Divider count;
  i64 extent, width;
  __device__ __forceinline__ From2 operator()(u32 row) const {
    const u32 o = count.quotient(row);
    const i64 i = place_of(index[row - o * count.divisor], extent);
    return {i < 0 ? -1 : (o * extent + i) * width, row * width};
  }
};

/// Rows of x [batch, E0, …, width], by index [batch, rows, Depth]; `rows` of the index are one batch. Counts in rows of x.
template <int Depth> struct NdPlaces {
  i64 batch, extents[Depth], strides[Depth];
};
template <class I, int Depth> struct AtNd {
  const I* index;
  Divider rows;
  NdPlaces<Depth> places;
  /// Which row of x the row of the index names; -1 for none.
  __device__ __forceinline__ i64 operator()(u32 row) const {
    i64 at = rows.quotient(row) * places.batch;
#pragma unroll
    for (int d = 0; d < Depth; ++d) {
      const i64 i = place_of(index[static_cast<i64>(row) * Depth + d], places.extents[d]);
      if (i < 0) return -1;
      at += i * places.strides[d];
    }
    return at;
  }
};

/// Elements of x by an index of any extents: along one axis the index's value, elsewhere its own place.
template <class I, int Rank> struct AtElement {
  const I* index;
  i64 extent, step;                      // of the axis in x
  Walk<Rank, 1> elsewhere;
  __device__ __forceinline__ i64 operator()(u32 row) const {
    i64 at[1];
    elsewhere.template locate<1>(row, at);
    const i64 i = place_of(index[row], extent);
    return i < 0 ? -1 : at[0] + i * step;
  }
};

/// Gathers what `at` names.
template <class At> struct Gathered {
  i64 width;
  At at;
  __device__ __forceinline__ From2 operator()(u32 row) const {
    const i64 r = at(row);
    return {r < 0 ? -1 : r * width, row * width};
  }
};

/// Each axis of y with its own places in x: offsets of a table (-1: outside), or a stride.
template <int Rank> struct ByAxes {
  const i64* tables;
  i64 offset;                            // of the first element in x
  Axes<Rank> axes;
  __device__ __forceinline__ From2 operator()(u32 row) const {
    From2 at{offset, 0};
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
};

/// The diagonal k and what lies above it, or below. k: a tensor, or a number.
template <bool Upper> struct Triangle {
  const i64* diagonal;
  i64 number;
  Divider columns, rows;
  __device__ __forceinline__ From2 operator()(u32 element) const {
    const i64 k = diagonal ? *diagonal : number;
    const u32 line = columns.quotient(element), c = element - line * columns.divisor;
    const u32 r = line - rows.quotient(line) * rows.divisor;
    const i64 d = static_cast<i64>(c) - static_cast<i64>(r);
    return {(Upper ? d >= k : d <= k) ? static_cast<i64>(element) : -1, element};
  }
};

/// A one where the column is k further than the row.
struct Diagonal {
  Divider columns;
  i64 k;
  __device__ __forceinline__ From2 operator()(u32 element) const {
    const u32 r = columns.quotient(element), c = element - r * columns.divisor;
    return {static_cast<i64>(c) - static_cast<i64>(r) == k ? 0 : -1, element};
  }
};

/// y [outer, depth, inner] from values [off, on]: on where the place is the index [outer, inner].
template <class I> struct OneHot {
  const I* index;
  Divider inner, depth;
  __device__ __forceinline__ From2 operator()(u32 element) const {
    const u32 line = inner.quotient(element), i = element - line * inner.divisor;
    const u32 o = depth.quotient(line), place = line - o * depth.divisor;
    i64 at = static_cast<i64>(index[o * inner.divisor + i]);
    if (at < 0) at += depth.divisor;
    return {at == place, element};
  }
};

/// x [first, second, width], time along one of the first two axes and samples along the other: the first lengths[sample] steps
/// of each sample reversed.
template <bool BatchFirst> struct Reversed {
  const i64* lengths;
  Divider second;
  i64 width;
  __device__ __forceinline__ From2 operator()(u32 row) const {
    const u32 a = second.quotient(row), b = row - a * second.divisor;
    const i64 time = BatchFirst ? b : a, length = lengths[BatchFirst ? a : b];
    const i64 back = time < length ? length - 1 - time : time;
    return {(BatchFirst ? a * static_cast<i64>(second.divisor) + back : back * second.divisor + b) * width, row * width};
  }
};

/// Updates [outer, length, width] into y [outer, extent, width] from each sample's own place on (null: 0); `samples` rows of
/// outer are one.
struct Placed {
  const i64* begin;
  Divider length, samples;
  i64 extent, width;
  bool circular;
  __device__ __forceinline__ From2 operator()(u32 row) const {
    const u32 o = length.quotient(row), i = row - o * length.divisor;
    i64 place = (begin ? begin[samples.quotient(o)] : 0) + i;
    if (circular) place = (place % extent + extent) % extent;
    return {row * width, place < 0 || place >= extent ? -1 : (o * extent + place) * width};
  }
};

/// Nothing is read: all is filled.
struct Filled {
  i64 width;
  __device__ __forceinline__ From2 operator()(u32 row) const { return {-1, row * width}; }
};
