// Copies that no thread waits for where it issues them. `shared` is an address in shared memory (common/shared.cuh), a
// `barrier` one of common/ptx/barriers.cuh, `there` and `barrier_there` in another block of the cluster (mapa_shared_cluster).
#pragma once

#include "common/integers.cuh"

namespace ptx {

// Asynchronous copies from global to shared memory: the first `read` bytes from `from`, zeros behind them. sm_80.

__device__ __forceinline__ void cp_async_cg_16(u32 shared, const void* from, int read) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(read) : "memory");
}
template <int Bytes> __device__ __forceinline__ void cp_async_ca(u32 shared, const void* from, int read) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(from), "n"(Bytes), "r"(read) : "memory");
}
__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Pending> __device__ __forceinline__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// Copies of boxes by a tensor map (CUtensorMap), whose bytes a barrier counts; x runs along memory. sm_90.

__device__ __forceinline__ void prefetch_tensormap(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_3d(u32 shared, const void* map, i32 x, i32 y, i32 z, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_4d(u32 shared, const void* map, i32 x, i32 y, i32 z, i32 w, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
      : "memory");
}
/// The same to the same place of every block of the cluster whose bit in `blocks` is set, and to their barriers.
__device__ __forceinline__ void cp_async_bulk_tensor_3d_multicast(u32 shared, const void* map, i32 x, i32 y, i32 z, u32 barrier,
                                                                  u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3, %4}], "
      "[%5], %6;" ::"r"(shared),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(blocks)
      : "memory");
}

/// From shared memory to the box; with those that were issued since the commit before it is a group of the thread.
__device__ __forceinline__ void cp_async_bulk_tensor_3d_store(const void* map, i32 x, i32 y, i32 z, u32 shared) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map), "r"(x), "r"(y), "r"(z),
               "r"(shared)
               : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_4d_store(const void* map, i32 x, i32 y, i32 z, i32 w, u32 shared) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(map), "r"(x), "r"(y),
               "r"(z), "r"(w), "r"(shared)
               : "memory");
}
__device__ __forceinline__ void cp_async_bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until all groups but the last `Pending` have read what they copy.
template <int Pending> __device__ __forceinline__ void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

// The same of the pixels under one tap of a convolution's windows (im2col mode): of so many windows as the map says, from the one
// that begins at w, h of image n on, the pixel `right` and `down` of where each begins; c: the first channel. Of a volume at w, h, d, and
// `behind` is along its depth.

__device__ __forceinline__ void cp_async_bulk_tensor_4d_im2col(u32 shared, const void* map, i32 c, i32 w, i32 h, i32 n, u32 barrier,
                                                               u16 right, u16 down) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], "
      "{%7, %8};" ::"r"(shared),
      "l"(map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(barrier), "h"(right), "h"(down)
      : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_4d_im2col_multicast(u32 shared, const void* map, i32 c, i32 w, i32 h, i32 n,
                                                                         u32 barrier, u16 right, u16 down, u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3, "
      "%4, %5}], [%6], {%7, %8}, %9;" ::"r"(shared),
      "l"(map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(barrier), "h"(right), "h"(down), "h"(blocks)
      : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_5d_im2col(u32 shared, const void* map, i32 c, i32 w, i32 h, i32 d, i32 n,
                                                               u32 barrier, u16 right, u16 down, u16 behind) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7], "
      "{%8, %9, %10};" ::"r"(shared),
      "l"(map), "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "r"(barrier), "h"(right), "h"(down), "h"(behind)
      : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_5d_im2col_multicast(u32 shared, const void* map, i32 c, i32 w, i32 h, i32 d,
                                                                         i32 n, u32 barrier, u16 right, u16 down, u16 behind,
                                                                         u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3, "
      "%4, %5, %6}], [%7], {%8, %9, %10}, %11;" ::"r"(shared),
      "l"(map), "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "r"(barrier), "h"(right), "h"(down), "h"(behind), "h"(blocks)
      : "memory");
}

/// `bytes` neighbouring ones, a multiple of 16, as is `from`; `policy`: of the L2 cache (common/ptx/memory.cuh).
__device__ __forceinline__ void cp_async_bulk_cache_hint(u32 shared, u64 from, u32 bytes, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(shared),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

// Copies between the shared memory of blocks of a cluster. sm_90.

/// What the thread wrote to shared memory is visible to the copies that it or others issue behind a barrier.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Copies to another block's shared memory, whose barrier counts the bytes; both as mapa_shared_cluster gives them.
__device__ __forceinline__ void cp_async_bulk_to_cluster(u32 there, u32 shared, u32 bytes, u32 barrier_there) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(there),
               "r"(shared), "r"(bytes), "r"(barrier_there)
               : "memory");
}

}  // namespace ptx
