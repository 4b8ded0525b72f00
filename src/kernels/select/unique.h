// The arguments of select/unique.cuh, and the functors that it selects by.
#pragma once

#include "kernels/sort/sort.h"

namespace smelt::kernels {

/// Flags the first item of each group of equal keys.
template <class K> struct BeginsGroup {
  const Item<K>* items;         // [n], sorted
#ifdef __CUDACC__
  __device__ __forceinline__ bool operator()(u32 i) const { return i == 0 || items[i].key != items[i - 1].key; }
#endif
};

struct PutPlace {
  u32* places;                  // [total]
#ifdef __CUDACC__
  __device__ __forceinline__ void operator()(u32 place, u32 rank, u32) const { places[rank] = place; }
#endif
};

/// K: the keys' type; void on the host.
template <class K> struct MarkFirstArgs {
  const Item<K>* items;         // [n], sorted
  const u32* heads;             // [groups]
  const i64* groups;            // [1]
  u32* group_of;                // [n], ~0 before: the group that begins at a place of x
};
static_assert(sizeof(MarkFirstArgs<void>) == 32);

/// Flags the places of x where a group begins.
struct IsFirst {
  const u32* group_of;          // [n]
#ifdef __CUDACC__
  __device__ __forceinline__ bool operator()(u32 i) const { return group_of[i] != 0xffffffffu; }
#endif
};

/// Puts the order of the group that begins at a place.
struct PutOrder {
  const u32* group_of;          // [n]
  u32* order;                   // [groups]
#ifdef __CUDACC__
  __device__ __forceinline__ void operator()(u32 place, u32 rank, u32) const { order[group_of[place]] = rank; }
#endif
};

/// T, K: the types of the elements and of their keys; void on the host. Outputs that are null are not asked for.
template <class T, class K> struct EmitUniqueArgs {
  const T* x;                   // [n]
  const Item<K>* items;         // [n], sorted
  const u32* heads;             // [groups]: where a group begins in `items`
  const u32* order;             // [groups]: a group's number in the result; null: as sorted
  const i64* groups;            // [1]
  T* y;                         // [groups]
  i64* first;                   // [groups]
  i64* inverse;                 // [n]
  i64* counts;                  // [groups]
  u32 n;
  u32 padding;
};
static_assert(sizeof(EmitUniqueArgs<void, void>) == 80);

}  // namespace smelt::kernels
