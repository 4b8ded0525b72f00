// An operand of a product by Hopper's instructions as a stage of shared memory has it: 64 steps of K of a tile's rows of a, or
// columns of b, brought by a tensor map (TMA) and read by wgmma through a matrix descriptor.
//
// In shared memory a line of 64 elements is 128 bytes, whose 16-byte vectors are permuted as 128-byte swizzles have it. Lines run
// along K:      line e of the operand's extent is 128 · e bytes behind its first; 16 steps of K are 32 bytes.
// along M or N: chunks of 64 of the extent, 8192 bytes each, of a line for each step of K; 16 steps are 2048 bytes.
#pragma once

#include "common/cluster.cuh"
#include "common/ptx/barriers.cuh"
#include "common/ptx/copies.cuh"
#include "common/shared.cuh"
#include "kernels/gemm/hopper.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ void wait_for_phase(u32 barrier, u32 parity) {
  while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}

/// Pairs of blocks that share an operand lie side by side in a cluster, which may have several.
__device__ __forceinline__ u32 block_of_pair() { return block_of_cluster() & 1; }
__device__ __forceinline__ u32 first_of_pair() { return block_of_cluster() & ~1u; }

/// Where a ring's reader or writer is.
struct RingPlace {
  int stage = 0;
  u32 phase = 0;
  template <int Stages> __device__ __forceinline__ void advance() {
    if (++stage == Stages) stage = 0, phase ^= 1;
  }
  template <int Stages> __device__ __forceinline__ void advance_by(int steps) {
    const int at = stage + steps;
    stage = at % Stages, phase ^= at / Stages & 1;
  }
};

/// Shared: by a pair of blocks, each of which brings half of it to both.
template <int Extent, bool KMajor, bool Shared = false> struct HopperOperand {
  static constexpr bool k_major = KMajor;
  static constexpr int chunk = 8192, chunks = (Extent + 63) / 64;           // where lines run along the extent
  static constexpr int bytes = KMajor ? Extent * 128 : chunks * chunk;
  static constexpr u64 per_block = 8192 >> 4, per_step = (KMajor ? 32 : 2048) >> 4;   // of a descriptor, for 64 lines, 16 steps
  static_assert(!KMajor || (Extent % (Shared ? 16 : 8) == 0 && Extent <= 256));

  /// PTX ISA, "Asynchronous warpgroup level matrix shared memory layout": 8 lines are 1024 bytes, chunks `chunk`.
  static __device__ __forceinline__ u64 descriptor(u32 shared) {
    return u64{shared >> 4 & 0x3fffu} | u64{KMajor ? 1 : chunk >> 4} << 16 | u64{1024 >> 4} << 32 | u64{1} << 62;
  }
  /// Issues the copies of the steps from `k` on of the lines from `first` on.
  static __device__ __forceinline__ void copy(u32 shared, const TensorMap& map, i32 first, i32 k, i32 matrix, u32 barrier) {
    if constexpr (KMajor) {
      const int half = Shared ? block_of_pair() * (Extent / 2) : 0;
      box(shared + half * 128, map, k, first + half, matrix, barrier);
    } else {
      const int half = Shared ? block_of_pair() * 32 : 0;            // of 64 steps of K
#pragma unroll
      for (int c = 0; c < chunks; ++c) box(shared + c * chunk + half * 128, map, first + c * 64, k + half, matrix, barrier);
    }
  }

 private:
  static __device__ __forceinline__ void box(u32 shared, const TensorMap& map, i32 x, i32 y, i32 matrix, u32 barrier) {
    if constexpr (Shared) ptx::cp_async_bulk_tensor_3d_multicast(shared, &map, x, y, matrix, barrier, 3u << first_of_pair());
    else ptx::cp_async_bulk_tensor_3d(shared, &map, x, y, matrix, barrier);
  }
};

#endif
