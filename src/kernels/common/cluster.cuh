// Blocks of a cluster (LaunchShape::cluster) and each other's shared memory; sm_90 on.
#pragma once

#include "common/ptx/cluster.cuh"
#include "common/shared.cuh"

#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ u32 block_of_cluster() { return ptx::cluster_ctarank(); }

/// A barrier for all threads of all blocks of the cluster; what they wrote to shared memory before it is visible after it.
__device__ __forceinline__ void synchronize_cluster() {
  ptx::barrier_cluster_arrive_release();
  ptx::barrier_cluster_wait();
}
/// The same without what they wrote: it needs no fence of the whole GPU (docs/gpu-design.md, Clusters).
__device__ __forceinline__ void meet_cluster() {
  ptx::barrier_cluster_arrive_relaxed();
  ptx::barrier_cluster_wait();
}

/// The address, for this block, of the same byte in another block's shared memory. `address`: as shared_address gives it.
__device__ __forceinline__ u32 address_in_block(u32 address, u32 block) { return ptx::mapa_shared_cluster(address, block); }

__device__ __forceinline__ Vector<float, 2> load_2_in_cluster(u32 address) {
  Vector<float, 2> x;
  ptx::ld_shared_cluster_v2_f32(x.at, address);
  return x;
}
__device__ __forceinline__ Vector<float, 4> load_4_in_cluster(u32 address) {
  Vector<float, 4> x;
  ptx::ld_shared_cluster_v4_f32(x.at, address);
  return x;
}

#endif
