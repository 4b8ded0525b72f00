// An operand of a product by Hopper's instructions as a stage of shared memory has it: 64 steps of K of a tile's rows of a, or
// columns of b, brought by a tensor map (TMA) and read by wgmma through a matrix descriptor.
//
// In shared memory a line of 64 elements is 128 bytes, whose 16-byte vectors are permuted as 128-byte swizzles have it. (Of integers a
// line may be of 64 bytes, as 64-byte swizzles have them, along K.) Lines run
// along K:      line e of the operand's extent is 128 · e bytes behind its first; 16 steps of K are 32 bytes.
// along M or N: chunks of 64 of the extent, 8192 bytes each, of a line for each step of K; 16 steps are 2048 bytes.
#pragma once

#include "common/cluster.cuh"
#include "common/ptx/barriers.cuh"
#include "common/ptx/copies.cuh"
#include "common/ptx/memory.cuh"
#include "common/shared.cuh"
#include "kernels/gemm/hopper.h"

#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ void wait_for_phase(u32 barrier, u32 parity) {
  while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}

/// Which of the blocks that share an operand this is, and all of them, as a multicast has it.
struct SharingBlocks {
  u32 mine;
  u16 blocks;
};

/// Across times Down blocks of a cluster, which may have several such patches, one behind the other. Those side by side, numbered
/// in turn, share the left operand's rows, those below each other the right one's columns; each brings its part to all of them.
template <int Across, int Down> struct BlockPatch {
  static constexpr u32 blocks = Across * Down, neighbours = Across + Down - 1;   // that this block's copies reach, itself included
  static __device__ __forceinline__ u32 first() { return block_of_cluster() / blocks * blocks; }
  static __device__ __forceinline__ u32 across() { return block_of_cluster() % Across; }
  static __device__ __forceinline__ u32 down() { return block_of_cluster() % blocks / Across; }
  static __device__ __forceinline__ SharingBlocks of_a() {
    return {across(), static_cast<u16>((1u << Across) - 1 << first() + down() * Across)};
  }
  static __device__ __forceinline__ SharingBlocks of_b() {
    u32 column = 0;
#pragma unroll
    for (int r = 0; r < Down; ++r) column |= 1u << r * Across;
    return {down(), static_cast<u16>(column << first() + across())};
  }
  /// Of the neighbours, this block's row first, then the others of its column.
  static __device__ __forceinline__ u32 neighbour(u32 at) {
    const u32 row = at - Across;
    return at < Across ? first() + down() * Across + at : first() + (row < down() ? row : row + 1) * Across + across();
  }
};

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

/// A stage of an operand that lies packed: the steps from `k` on of tile `tile`, to `shared`. The stages of all tiles lie side by side, so
/// that what blocks read at a time is one run of memory.
template <int Bytes> __device__ __forceinline__ void copy_packed(u32 shared, const TensorMap& b, u32 tile, i32 k, u32 barrier) {
  const u64 stage = static_cast<u32>(k) / 64 * b.words[1] + tile;
  ptx::cp_async_bulk_cache_hint(shared, b.words[0] + stage * Bytes, Bytes, barrier, ptx::createpolicy_evict_first());
}

/// The descriptor of lines of 128 or 64 bytes whose vectors are swizzled. PTX ISA, "Asynchronous warpgroup level matrix shared memory
/// layout": so many bytes from 8 lines to the next; where lines run along M or N, one lies `chunk` bytes behind the other.
template <int Line = 128> __device__ __forceinline__ u64 swizzled_matrix(u32 shared, u32 chunk) {
  static_assert(Line == 128 || Line == 64);
  return u64{shared >> 4 & 0x3fffu} | u64{chunk >> 4} << 16 | u64{8 * Line >> 4} << 32 | u64{Line == 128 ? 1 : 2} << 62;
}
/// Where lines run along K: these have no chunks.
template <int Line = 128> __device__ __forceinline__ u64 swizzled_matrix(u32 shared) { return swizzled_matrix<Line>(shared, 16); }

/// Sharing: blocks that each bring their part of it to all of them. Line: bytes.
template <int Extent, bool KMajor, int Sharing = 1, int Line = 128> struct HopperOperand {
  static constexpr bool k_major = KMajor;
  static constexpr int chunk = 8192, chunks = (Extent + 63) / 64;           // where lines run along the extent
  static constexpr int bytes = KMajor ? Extent * Line : chunks * chunk;
  static constexpr u64 per_block = 64 * Line >> 4, per_step = (KMajor ? 32 : 2048) >> 4;   // of a descriptor, for 64 lines, 16 steps
  static_assert(Sharing <= 8 && (!KMajor || (Extent % (8 * Sharing) == 0 && Extent <= 256)));
  static_assert(Line == 128 || (Line == 64 && KMajor));

  static __device__ __forceinline__ u64 descriptor(u32 shared) {
    if constexpr (KMajor) return swizzled_matrix<Line>(shared);
    else return swizzled_matrix(shared, chunk);
  }
  /// Issues the copies of the steps from `k` on of the lines from `first` on.
  static __device__ __forceinline__ void copy(u32 shared, const TensorMap& map, i32 first, i32 k, i32 matrix, u32 barrier,
                                              SharingBlocks with) {
    const int part = with.mine * ((KMajor ? Extent : 64) / Sharing);          // of the lines along K: steps
    if constexpr (KMajor) {
      box(shared + part * Line, map, k, first + part, matrix, barrier, with.blocks);
    } else {
#pragma unroll
      for (int c = 0; c < chunks; ++c)
        box(shared + c * chunk + part * 128, map, first + c * 64, k + part, matrix, barrier, with.blocks);
    }
  }

 private:
  static __device__ __forceinline__ void box(u32 shared, const TensorMap& map, i32 x, i32 y, i32 matrix, u32 barrier, u16 blocks) {
    if constexpr (Sharing > 1) ptx::cp_async_bulk_tensor_3d_multicast(shared, &map, x, y, matrix, barrier, blocks);
    else ptx::cp_async_bulk_tensor_3d(shared, &map, x, y, matrix, barrier);
  }
};

#endif
