// Blocks of a cluster (LaunchShape::cluster) and each other's shared memory; sm_90 on.
//
// PTX ISA, "barrier.cluster", "mapa", "ld".
#pragma once

#include "common/shared.cuh"

#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ u32 block_of_cluster() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// All threads of all blocks of the cluster come here before any goes on; what they wrote to shared memory before is visible
/// after.
__device__ __forceinline__ void synchronize_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// What another block's thread calls shared_address of the same place.
__device__ __forceinline__ u32 address_in_block(u32 address, u32 block) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  return there;
}

__device__ __forceinline__ Vector<float, 2> load_2_in_cluster(u32 address) {
  Vector<float, 2> x;
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(x.at[0]), "=f"(x.at[1]) : "r"(address) : "memory");
  return x;
}
__device__ __forceinline__ Vector<float, 4> load_4_in_cluster(u32 address) {
  Vector<float, 4> x;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.at[0]), "=f"(x.at[1]), "=f"(x.at[2]), "=f"(x.at[3])
               : "r"(address)
               : "memory");
  return x;
}

#endif
