// Accesses that say how soon the L2 cache may give up what they touch.
//
// From sm_80 on (createpolicy); elements or vectors of 16 bytes, or several times that, are accessed so, smaller ones plainly.
#pragma once

#include "common/types.cuh"

/// What lies in the cache is given up first, last, or in its turn.
enum class CacheHint { evict_first, evict_last, none };

template <CacheHint Hint> __device__ __forceinline__ u64 cache_policy() {
  if constexpr (Hint == CacheHint::evict_first) return ptx::createpolicy_evict_first();
  else return ptx::createpolicy_evict_last();
}

/// Volatile: what is read twice is meant to be, and not held in registers.
template <CacheHint Hint, class V> __device__ __forceinline__ V load_hinted(const V* from) {
  if constexpr (Hint == CacheHint::none || sizeof(V) % 16 != 0) {
    return *from;
  } else {
    V v;
    uint4* to = reinterpret_cast<uint4*>(&v);
    const u64 policy = cache_policy<Hint>();
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(V) / 16); ++i)
      to[i] = ptx::ld_global_cache_hint_v4(reinterpret_cast<const uint4*>(from) + i, policy);
    return v;
  }
}

template <CacheHint Hint, class V> __device__ __forceinline__ void store_hinted(V* to, const V& v) {
  if constexpr (Hint == CacheHint::none || sizeof(V) % 16 != 0) {
    *to = v;
  } else {
    const uint4* from = reinterpret_cast<const uint4*>(&v);
    const u64 policy = cache_policy<Hint>();
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(V) / 16); ++i)
      ptx::st_global_cache_hint_v4(reinterpret_cast<uint4*>(to) + i, from[i], policy);
  }
}
