// The arguments of sort/sort.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

/// A key, and the place that it came from.
template <class K> struct Item {
  K key;
  u32 place;
#ifdef __CUDACC__
  __device__ __forceinline__ bool before(const Item& o) const { return key < o.key || (key == o.key && place < o.place); }
#endif
};

/// Lines along an axis of a tensor. T: the elements' type; void on the host.
template <class T> struct AxisLines {
  const T* x;                   // [outer, extent, inner]; a line is (outer, inner)
  Divider inner;
  u32 extent;
#ifdef __CUDACC__
  __device__ __forceinline__ u64 at(u32 line, u32 place) const {
    const u32 o = inner.quotient(line), i = line - o * inner.divisor;
    return (static_cast<u64>(o) * extent + place) * inner.divisor + i;
  }
#endif
};
static_assert(sizeof(AxisLines<void>) == 24);

/// K: the keys' type; void on the host.
template <class K> struct SortedTiles {
  Item<K>* out;                 // [lines, tiles, keep]
  u32 extent, tiles, keep;      // keys and tiles of a line; items that are kept of a tile
  u32 padding;
};
static_assert(sizeof(SortedTiles<void>) == 24);

template <class Source> struct SortArgs {
  SortedTiles<typename Source::Key> sorted;
  Source source;
};

/// K: the keys' type; void on the host.
template <class K> struct MergeArgs {
  const Item<K>* runs;          // [lines, runs, keep]
  Item<K>* out;                 // [lines, ceil(runs / 2), kept]
  Divider keep, per_line;       // items of a run; runs of a line
  u32 count, kept;              // items in all; of a merged run
};
static_assert(sizeof(MergeArgs<void>) == 48);

/// T, K: the types of the elements and of their keys; void on the host.
template <class T, class K> struct TopKArgs {
  AxisLines<T> lines;
  T* values;                    // [outer, k, inner]; null: they are no output
  i64* places;                  // [outer, k, inner]; null: they are no output
  const Item<K>* items;         // [lines, k], sorted; null where a line is one tile
  Divider k;
  u32 count;                    // of items
};
static_assert(sizeof(TopKArgs<void, void>) == 64);

}  // namespace smelt::kernels
