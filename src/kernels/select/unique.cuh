// Unique over all elements: once sorted (sort/sort.cuh), equal keys lie side by side, and the first of a group is the one that
// came first.
//
//   items     [n]          sorted: key, place
//   heads     [groups]     where in `items` a group begins (select/compact.cuh)
//   order     [groups]     a group's number in the result; null: as sorted
#pragma once

#include "select/compact.cuh"
#include "sort/sort.cuh"

template <class K> struct BeginsGroup {
  const Item<K>* items;
  __device__ __forceinline__ bool operator()(u32 i) const { return i == 0 || items[i].key != items[i - 1].key; }
};

struct PutPlace {
  u32* places;
  __device__ __forceinline__ void operator()(u32 place, u32 rank, u32) const { places[rank] = place; }
};

/// The group that begins at a place of x, and ~0 where none does; filled with ~0 before.
template <class K>
__device__ __forceinline__ void mark_first(const Item<K>* items, const u32* heads, const i64* groups, u32* group_of) {
  const u32 g = blockIdx.x * blockDim.x + threadIdx.x;
  if (g < *groups) group_of[items[heads[g]].place] = g;
}

struct IsFirst {
  const u32* group_of;
  __device__ __forceinline__ bool operator()(u32 i) const { return group_of[i] != 0xffffffffu; }
};
/// order of the group that begins there
struct PutOrder {
  const u32* group_of;
  u32* order;
  __device__ __forceinline__ void operator()(u32 place, u32 rank, u32) const { order[group_of[place]] = rank; }
};

/// A thread a sorted item; outputs that are null are not asked for. y, first, counts [groups]; inverse [n].
template <class T, class K>
__device__ __forceinline__ void emit_unique(const T* x, const Item<K>* items, const u32* heads, const u32* order,
                                            const i64* groups, T* y, i64* first, i64* inverse, i64* counts, u32 n) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const u32 total = static_cast<u32>(*groups), place = items[i].place;
  u32 begin = 0, end = total;                                 // the last head up to i
  while (end - begin > 1) {
    const u32 middle = (begin + end) / 2;
    if (heads[middle] <= i) begin = middle;
    else end = middle;
  }
  const u32 to = order ? order[begin] : begin;
  if (inverse) inverse[place] = to;
  if (heads[begin] != i) return;
  if (y) y[to] = x[place];
  if (first) first[to] = place;
  if (counts) counts[to] = (begin + 1 < total ? heads[begin + 1] : n) - i;
}
