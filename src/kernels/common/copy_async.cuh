// Copies from global to shared memory that the thread does not wait for.
//
//   copy_async<16>(to, from, inside);   any number of these
//   copy_async_commit();                closes a group
//   copy_async_wait<1>();               all of this thread's groups but the last have arrived; then __syncthreads()
//
// From sm_80 on by cp.async; before it, and for 1 and 2 bytes, by a load and a store. 16 bytes bypass the L1 cache.
// Where `inside` is false zeros are written and `from` is not read. Both addresses are aligned to the copy's bytes.
#pragma once

#include "common/ptx/copies.cuh"
#include "common/ptx/memory.cuh"
#include "common/shared.cuh"

template <int Bytes> __device__ __forceinline__ void copy_async(u32 to, const void* from, bool inside) {
  static_assert(Bytes == 1 || Bytes == 2 || Bytes == 4 || Bytes == 8 || Bytes == 16);
  if constexpr (Bytes == 1) {
    const u32 x = inside ? *static_cast<const u8*>(from) : 0;
    ptx::st_shared_u8(to, x);
  } else if constexpr (Bytes == 2) {
    const u16 x = inside ? *static_cast<const u16*>(from) : static_cast<u16>(0);
    ptx::st_shared_u16(to, x);
  } else {
#if __CUDA_ARCH__ >= 800
    const int read = inside ? Bytes : 0;
    if constexpr (Bytes == 16) ptx::cp_async_cg_16(to, from, read);
    else ptx::cp_async_ca<Bytes>(to, from, read);
#else
    constexpr int words = Bytes / 4;
    const Vector<u32, words> x = inside ? *static_cast<const Vector<u32, words>*>(from) : Vector<u32, words>{};
    if constexpr (words == 1) ptx::st_shared_u32(to, x.at[0]);
    if constexpr (words == 2) ptx::st_shared_v2_u32(to, x.at[0], x.at[1]);
    if constexpr (words == 4) ptx::st_shared_v4_u32(to, x.at[0], x.at[1], x.at[2], x.at[3]);
#endif
  }
}

__device__ __forceinline__ void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  ptx::cp_async_commit_group();
#endif
}

/// Waits until all groups but the last `Pending` have arrived.
template <int Pending> __device__ __forceinline__ void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  ptx::cp_async_wait_group<Pending>();
#endif
}
