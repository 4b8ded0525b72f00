// Accesses that say how soon the L2 cache may give up what they touch.
//
// From sm_80 on (createpolicy). Only accesses of 16 bytes or a multiple carry the hint.
#pragma once

#include "common/ptx/memory.cuh"
#include "common/types.cuh"

/// The cache gives the data up first, last, or in its turn.
enum class CacheHint { evict_first, evict_last, none };

template <CacheHint Hint> __device__ __forceinline__ u64 cache_policy() {
  if constexpr (Hint == CacheHint::evict_first) return ptx::createpolicy_evict_first();
  else return ptx::createpolicy_evict_last();
}

/// Volatile: a kernel that loads twice means to, to hold nothing in registers between.
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
