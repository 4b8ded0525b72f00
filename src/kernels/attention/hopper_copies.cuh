// The thread of a block of Hopper's attention (attention/hopper.cuh) that has its rows, and tile by tile the keys and values, brought.
#pragma once

#include "attention/hopper_blocks.cuh"
#include "common/ptx/barriers.cuh"
#include "common/ptx/copies.cuh"
#include "gemm/hopper_operand.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// The copying thread.
template <class A, MaskKind Mask> __device__ __forceinline__ void copy_tiles(const HopperAttentionArgs& a, u32 memory) {
  constexpr int chunk = A::chunk_columns;
  RingPlace place;
  u32 phase = 1;                                                             // of the rows that are to be free
#pragma unroll 1
  for (u32 at = blockIdx.x; at < a.blocks; at += gridDim.x, phase ^= 1) {
    const HopperAttentionPlace<A, Mask> block(a, at);
    const i32 b = block.batch, h = block.head, kv = h / a.group;
#pragma unroll 1
    for (u32 n = 0; n < block.tiles; ++n) {
      const i32 key = n * A::keys;
      if (n == 0) {
#pragma unroll
        for (int g = 0; g < A::row_groups; ++g) {
          wait_for_phase(A::rows_empty(memory, g), phase);
          ptx::mbarrier_arrive_expect_tx(A::rows_full(memory, g), A::query_bytes);
#pragma unroll
          for (int c = 0; c < A::depth_chunks; ++c)
            ptx::cp_async_bulk_tensor_4d(A::rows_of(memory, g) + c * A::row_chunk, &a.q, c * chunk,
                                         block.first_row + g * A::group_rows, h, b, A::rows_full(memory, g));
        }
      }
      wait_for_phase(A::keys_empty(memory, place.stage), place.phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(A::keys_full(memory, place.stage), A::key_bytes);
#pragma unroll
      for (int c = 0; c < A::depth_chunks; ++c)
        ptx::cp_async_bulk_tensor_4d(A::keys_of(memory, place.stage) + c * A::key_chunk, &a.k, c * chunk, key, kv, b,
                                     A::keys_full(memory, place.stage));
      wait_for_phase(A::values_empty(memory, place.stage), place.phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(A::values_full(memory, place.stage), A::value_bytes);
#pragma unroll
      for (int c = 0; c < A::value_chunks; ++c)
        ptx::cp_async_bulk_tensor_4d(A::values_of(memory, place.stage) + c * A::key_chunk, &a.v, c * chunk, key, kv, b,
                                     A::values_full(memory, place.stage));
      place.advance<A::stages>();
    }
    if constexpr (!A::persistent) break;
  }
}

#endif
