// Unique over all elements. In sorted items (sort/sort.cuh) equal keys lie side by side, and the first item of such a group is
// the one that came first in x. select/compact.cuh selects where each group begins.
#pragma once

#include "kernels/select/unique.h"
#include "select/compact.cuh"
#include "sort/sort.cuh"

/// Writes each group's number to the place of x where it begins. A thread a group.
template <class K> __device__ __forceinline__ void mark_first(const MarkFirstArgs<K>& a) {
  const u32 g = blockIdx.x * blockDim.x + threadIdx.x;
  if (g < *a.groups) a.group_of[a.items[a.heads[g]].place] = g;
}

/// Writes the outputs that are asked for. A thread a sorted item.
template <class T, class K> __device__ __forceinline__ void emit_unique(const EmitUniqueArgs<T, K>& a) {
  const u32* const heads = a.heads;                           // (groups)
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.n) return;
  const u32 total = static_cast<u32>(*a.groups), place = a.items[i].place;
  u32 begin = 0, end = total;                                 // bisects for the last head up to i
  while (end - begin > 1) {
    const u32 middle = (begin + end) / 2;
    if (heads[middle] <= i) begin = middle;
    else end = middle;
  }
  const u32 to = a.order ? a.order[begin] : begin;
  if (a.inverse) a.inverse[place] = to;
  if (heads[begin] != i) return;
  if (a.y) a.y[to] = a.x[place];
  if (a.first) a.first[to] = place;
  if (a.counts) a.counts[to] = (begin + 1 < total ? heads[begin + 1] : a.n) - i;
}
