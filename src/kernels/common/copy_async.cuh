// Copies from global to shared memory that the thread does not wait for.
//
//   copy_async<16>(to, from, inside);   any number of these
//   copy_async_commit();                closes a group
//   copy_async_wait<1>();               all of this thread's groups but the last have arrived; __syncthreads() for the block's
//
// From sm_80 on by cp.async; before, and for 1 and 2 bytes, by a load and a store. 16 bytes go past the L1 cache.
// Where `inside` is false zeros are written and `from` is not read. Both addresses are aligned to the copy's bytes.
#pragma once

#include "common/shared.cuh"

template <int Bytes> __device__ __forceinline__ void copy_async(u32 to, const void* from, bool inside) {
  static_assert(Bytes == 1 || Bytes == 2 || Bytes == 4 || Bytes == 8 || Bytes == 16);
  if constexpr (Bytes == 1) {
    const u32 x = inside ? *static_cast<const u8*>(from) : 0;
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(to), "r"(x) : "memory");
  } else if constexpr (Bytes == 2) {
    const u16 x = inside ? *static_cast<const u16*>(from) : static_cast<u16>(0);
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(x) : "memory");
  } else {
#if __CUDA_ARCH__ >= 800
    const int read = inside ? Bytes : 0;
    if constexpr (Bytes == 16)
      asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(Bytes), "r"(read) : "memory");
#else
    constexpr int words = Bytes / 4;
    const Vector<u32, words> x = inside ? *static_cast<const Vector<u32, words>*>(from) : Vector<u32, words>{};
    if constexpr (words == 1) asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(x.at[0]) : "memory");
    if constexpr (words == 2) asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(x.at[0]), "r"(x.at[1]) : "memory");
    if constexpr (words == 4)
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.at[0]), "r"(x.at[1]), "r"(x.at[2]), "r"(x.at[3])
                   : "memory");
#endif
  }
}

__device__ __forceinline__ void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most `Pending` of the groups closed last are on their way.
template <int Pending> __device__ __forceinline__ void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}
