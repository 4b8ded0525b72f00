// Blocks of a cluster and each other's shared memory: `shared` is an address in this block's (common/shared.cuh), `there` in
// another's. sm_90.
#pragma once

#include "common/integers.cuh"

namespace ptx {

__device__ __forceinline__ u32 cluster_ctarank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ u32 mapa_shared_cluster(u32 shared, u32 block) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(block));
  return there;
}
__device__ __forceinline__ void ld_shared_cluster_v2_f32(float (&x)[2], u32 there) {
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(there) : "memory");
}
__device__ __forceinline__ void ld_shared_cluster_v4_f32(float (&x)[4], u32 there) {
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "r"(there)
               : "memory");
}
__device__ __forceinline__ void st_shared_cluster_f32(u32 there, float x) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(x) : "memory");
}

/// 16 bytes, which `barrier`, of the same block as `there`, counts once they are there.
__device__ __forceinline__ void st_async_v4(u32 there, const u32 (&x)[4], u32 barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(there), "r"(x[0]),
               "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(barrier)
               : "memory");
}

/// Publishes what this thread wrote.
__device__ __forceinline__ void barrier_cluster_arrive_release() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/// Publishes nothing, and so needs no fence.
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void barrier_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

}  // namespace ptx
