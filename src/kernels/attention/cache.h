// The argument of attention/flash_block.cuh where keys and values are a cache's past and what is new, and it writes both as one.
#pragma once

#include "kernels/attention/flash.h"

namespace smelt::kernels {

/// T: the elements' type; void on the host. Strides along [batch, key head, row].
template <class T> struct CacheArgs {
  const T *k, *v;               // behind the past: [batch, heads / group, keys - past, depth] and value_depth
  T *present_k, *present_v;     // [batch, heads / group, keys, depth] and value_depth
  i64 k_strides[3], v_strides[3], present_k_strides[3], present_v_strides[3];
  u32 past, padding;            // rows of problem.k and problem.v
};
static_assert(sizeof(CacheArgs<void>) == 136);

template <class T> struct CachedFlashArgs : FlashArgs<T> {
  CacheArgs<T> cache;
};
static_assert(sizeof(CachedFlashArgs<void>) == 392);

}  // namespace smelt::kernels
