// Loads and stores. `shared` is an address in shared memory (common/shared.cuh), aligned to the access, as pointers are.
#pragma once

#include "common/integers.cuh"

namespace ptx {

// Global memory. sm_75; with a cache policy sm_80. Volatile: what is read twice is loaded twice.

__device__ __forceinline__ uint4 ld_global_cg_v4(const void* from) {
  uint4 x;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from) : "memory");
  return x;
}
__device__ __forceinline__ u64 createpolicy_evict_first() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ u64 createpolicy_evict_last() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ uint4 ld_global_cache_hint_v4(const void* from, u64 policy) {
  uint4 x;
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from), "l"(policy));
  return x;
}
__device__ __forceinline__ void st_global_cache_hint_v4(void* to, const uint4& x, u64 policy) {
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w),
               "l"(policy)
               : "memory");
}

// Shared memory. sm_75.

__device__ __forceinline__ float ld_shared_f32(u32 shared) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(shared) : "memory");
  return x;
}
__device__ __forceinline__ uint4 ld_shared_v4(u32 shared) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(shared)
               : "memory");
  return x;
}
__device__ __forceinline__ void st_shared_u8(u32 shared, u32 x) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(shared), "r"(x) : "memory");
}
__device__ __forceinline__ void st_shared_u16(u32 shared, u16 x) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(shared), "h"(x) : "memory");
}
__device__ __forceinline__ void st_shared_u32(u32 shared, u32 x) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared), "r"(x) : "memory");
}
__device__ __forceinline__ void st_shared_v2_u32(u32 shared, u32 x, u32 y) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(shared), "r"(x), "r"(y) : "memory");
}
__device__ __forceinline__ void st_shared_v4_u32(u32 shared, u32 x, u32 y, u32 z, u32 w) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

}  // namespace ptx
