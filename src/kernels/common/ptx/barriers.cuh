// What threads wait for: each other, copies, other kernels. `barrier` is an address in shared memory (common/shared.cuh).
#pragma once

#include "common/integers.cuh"

namespace ptx {

// Of a block. sm_75.

/// A barrier of the block's first `threads` threads, or of other warps that count so many; `id`: 1 … 15.
__device__ __forceinline__ void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// The same without waiting.
__device__ __forceinline__ void bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Barriers in shared memory that count arrivals, and bytes that copies bring; a phase ends when all have come. sm_90.

__device__ __forceinline__ void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// What was initialised is visible to the copies.
__device__ __forceinline__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Whether the phase of this parity has ended; waits a moment for it.
__device__ __forceinline__ bool mbarrier_try_wait_parity(u32 barrier, u32 parity) {
  u32 done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}

/// `there`: in another block of the cluster, as mapa_shared_cluster gives it. Publishes nothing to other blocks: with
/// release.cluster, ptxas puts a fence of the whole GPU before it, which takes a microsecond.
__device__ __forceinline__ void mbarrier_arrive_cluster(u32 there) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}

// Programmatic dependent launch (common/dependent_launch.cuh). sm_90.

__device__ __forceinline__ void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

}  // namespace ptx
