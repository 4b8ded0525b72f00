// A block's tile of a product by Hopper's instructions: groups of four warps multiply what lies in shared memory (wgmma), where
// one warp more has it brought by tensor maps (TMA).
//
//   sums (TileM, TileN) += a (TileM, 64) · b (64, TileN)
//
// The left operand fills the instruction's side of 64 rows, the right one its columns. a is the left one; with Swap b is, so
// that few rows of a do not leave the 64 rows empty, and the sums are those of the transposed product.
//
//   left   (64 · rows · Groups, 64)      each group has its 64 · rows lines
//   right  (64, columns)                 of all groups
//
// In shared memory a line of 64 elements is 128 bytes, whose 16-byte vectors are permuted as 128-byte swizzles have it. Lines run
// along K:      line e of the operand's extent is 128 · e bytes behind its first; 16 steps of K are 32 bytes.
// along M or N: chunks of 64 of the extent, 8192 bytes each, of a line for each step of K; 16 steps are 2048 bytes.
#pragma once

#include "common/shared.cuh"
#include "kernels/gemm/hopper.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ void wait_for_phase(u32 barrier, u32 parity) {
  while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}

/// An operand's part of a stage: Extent rows of a, or columns of b, by 64 steps of K.
template <int Extent, bool KMajor> struct HopperOperand {
  static constexpr bool k_major = KMajor;
  static constexpr int chunk = 8192, chunks = (Extent + 63) / 64;           // where lines run along the extent
  static constexpr int bytes = KMajor ? Extent * 128 : chunks * chunk;
  static constexpr u64 per_block = 8192 >> 4, per_step = (KMajor ? 32 : 2048) >> 4;   // of a descriptor, for 64 lines, 16 steps

  /// PTX ISA, "Asynchronous warpgroup level matrix shared memory layout": 8 lines are 1024 bytes, chunks `chunk`.
  static __device__ __forceinline__ u64 descriptor(u32 shared) {
    return u64{shared >> 4 & 0x3fffu} | u64{KMajor ? 1 : chunk >> 4} << 16 | u64{1024 >> 4} << 32 | u64{1} << 62;
  }
  /// Issues the copies of the steps from `k` on of the lines from `first` on.
  static __device__ __forceinline__ void copy(u32 shared, const TensorMap& map, i32 first, i32 k, i32 matrix, u32 barrier) {
    if constexpr (KMajor) {
      ptx::cp_async_bulk_tensor_3d(shared, &map, k, first, matrix, barrier);
    } else {
#pragma unroll
      for (int c = 0; c < chunks; ++c)
        ptx::cp_async_bulk_tensor_3d(shared + c * chunk, &map, first + c * 64, k, matrix, barrier);
    }
  }
};

template <class T, int M, int N, int Groups, int StageCount, bool AKMajor, bool BKMajor, bool Swap> struct HopperTile {
  using A = T;
  using B = T;
  using Sum = float;
  static constexpr int tile_m = M, tile_n = N, tile_k = 64, stages = StageCount, groups = Groups;
  static constexpr int threads = 128 * Groups, block_threads = threads + 32;               // that have sums; and the copying warp
  using OperandA = HopperOperand<M, AKMajor>;
  using OperandB = HopperOperand<N, BKMajor>;
  static constexpr int a_bytes = OperandA::bytes, stage_bytes = a_bytes + OperandB::bytes;
  static constexpr int rows = (Swap ? N : M) / (64 * Groups), columns = Swap ? M : N;
  static_assert(rows * 64 * Groups == (Swap ? N : M) && columns % 8 == 0 && columns <= 256 && (!AKMajor || M <= 256));
  // Sums go through shared memory 8 rows of a warp at a time, of so many columns; with Swap 8 columns of 16 rows.
  static constexpr int part = columns % 64 == 0 ? 64 : columns % 32 == 0 ? 32 : columns % 16 == 0 ? 16 : 8;
  static constexpr int exchange_row = Swap ? 20 : part + 8, exchange_bytes = 8 * exchange_row * 4;   // of a warp
  static constexpr int barriers = stages * stage_bytes, exchanges = barriers + (16 * stages + 127) / 128 * 128;
  static constexpr int shared_bytes = 1024 + exchanges + 4 * Groups * exchange_bytes;

  float d[rows][columns / 2] = {};                                          // (rows) of (64, columns)

  static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
  static __device__ __forceinline__ int group() { return threadIdx.x / 128; }
  static __device__ __forceinline__ u32 full(u32 ring, int stage) { return ring + barriers + stage * 16; }
  static __device__ __forceinline__ u32 empty(u32 ring, int stage) { return full(ring, stage) + 8; }
  /// All threads that have sums.
  static __device__ __forceinline__ void synchronize() { ptx::bar_sync(1, threads); }

  template <int Count> static __device__ __forceinline__ void product(float (&sums)[Count], u64 left, u64 right) {
    constexpr int trans_left = !(Swap ? BKMajor : AKMajor), trans_right = !(Swap ? AKMajor : BKMajor);
    if constexpr (IsBf16<T>::value) ptx::wgmma_bf16<trans_left, trans_right>(sums, left, right);
    else ptx::wgmma_f16<trans_left, trans_right>(sums, left, right);
  }

  /// One thread before all others begin.
  static __device__ __forceinline__ void initialize(u32 ring) {
#pragma unroll 1
    for (int s = 0; s < stages; ++s) ptx::mbarrier_init(full(ring, s), 1), ptx::mbarrier_init(empty(ring, s), 4 * Groups);
    ptx::fence_mbarrier_init();
  }

  /// The sums of `k_tiles` stages. `stage` and `phase` go on from tile to tile.
  __device__ __forceinline__ void multiply(u32 ring, int k_tiles, int& stage, u32& phase) {
    using Left = HopperOperand<Swap ? N : M, Swap ? BKMajor : AKMajor>;
    using Right = HopperOperand<Swap ? M : N, Swap ? AKMajor : BKMajor>;
    const u64 left = Left::descriptor(ring + (Swap ? a_bytes : 0)) + group() * (rows * Left::per_block);
    const u64 right = Right::descriptor(ring + (Swap ? 0 : a_bytes));
    int before = 0;                                                         // the stage of the tile before
#pragma unroll 1
    for (int t = 0; t < k_tiles; ++t) {
      wait_for_phase(full(ring, stage), phase);
      const u64 offset = static_cast<u64>(stage * (stage_bytes >> 4));
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step)
#pragma unroll
        for (int i = 0; i < rows; ++i)
          product(d[i], left + offset + i * Left::per_block + step * Left::per_step, right + offset + step * Right::per_step);
      ptx::wgmma_commit_group();
      // The products of the tile before are done, those of this one are on their way.
      ptx::wgmma_wait_group<1>();
      if (t > 0 && lane() == 0) ptx::mbarrier_arrive(empty(ring, before));
      before = stage;
      if (++stage == stages) stage = 0, phase ^= 1;
    }
    ptx::wgmma_wait_group<0>();
    if (lane() == 0) ptx::mbarrier_arrive(empty(ring, before));
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int e = 0; e < columns / 2; ++e) ptx::keep_order(d[i][e]);
  }

  /// The copying thread's part of the same.
  static __device__ __forceinline__ void copy(u32 ring, const TensorMap& a, const TensorMap& b, i32 row, i32 column, i32 k,
                                              const i64 (&matrix)[2], int k_tiles, int& stage, u32& phase) {
#pragma unroll 1
    for (int t = 0; t < k_tiles; ++t, k += tile_k) {
      wait_for_phase(empty(ring, stage), phase ^ 1);
      const u32 barrier = full(ring, stage), to = ring + stage * stage_bytes;
      ptx::mbarrier_arrive_expect_tx(barrier, stage_bytes);
      OperandA::copy(to, a, row, k, static_cast<i32>(matrix[0]), barrier);
      OperandB::copy(to + a_bytes, b, column, k, static_cast<i32>(matrix[1]), barrier);
      if (++stage == stages) stage = 0, phase ^= 1;
    }
  }

  /// Writes y for all of the tile, which begins at `row`, `column`, 8 neighbouring columns at a time, all of which lie inside or
  /// none; what is read for one part of the sums is loaded before the part before is written.
  template <class Epilogue>
  __device__ __forceinline__ void finish(char* exchange, const Epilogue& epilogue, const typename Epilogue::Start& start, u32 row,
                                         u32 column, int rows_left, int columns_left) const {
    static_assert(!Swap && Epilogue::width == 8);
    constexpr int lanes = part / 8, takes = lanes > 4 ? lanes / 4 : 1, parts = rows * 2 * (columns / part);   // lanes: of a row
    const int warp = threadIdx.x / 32, first = group() * rows * 64 + warp % 4 * 16, mine_row = lane() / lanes,
              mine_column = lane() % lanes * 8;
    float* mine = reinterpret_cast<float*>(exchange) + warp * (exchange_bytes / 4);
    typename Epilogue::Operands o[2][takes];
    const auto place = [&](int p, int q, int& r, int& c) {                  // in the tile; whether y has it
      const int i = p / (2 * (columns / part)), half = p / (columns / part) % 2, from = p % (columns / part) * part;
      r = first + i * 64 + half * 8 + q * (32 / lanes) + mine_row, c = from + mine_column;
      return r < rows_left && c < columns_left && (lanes >= 4 || mine_row < 8);
    };
    const auto fetch = [&](int p) {
#pragma unroll
      for (int q = 0; q < takes; ++q) {
        int r, c;
        if (place(p, q, r, c)) epilogue.fetch(o[p % 2][q], start, row + r, column + c, 8);
      }
    };
    fetch(0);
#pragma unroll
    for (int p = 0; p < parts; ++p) {
      const int i = p / (2 * (columns / part)), half = p / (columns / part) % 2, from = p % (columns / part) * part;
#pragma unroll
      for (int j = 0; j < part / 8; ++j)
        *reinterpret_cast<Vector<float, 2>*>(mine + lane() / 4 * exchange_row + j * 8 + lane() % 4 * 2) = {
            d[i][(from / 8 + j) * 4 + half * 2], d[i][(from / 8 + j) * 4 + half * 2 + 1]};
      if (p + 1 < parts) fetch(p + 1);
      __syncwarp();
#pragma unroll
      for (int q = 0; q < takes; ++q) {
        int r, c;
        if (!place(p, q, r, c)) continue;
        const auto v =
            *reinterpret_cast<const Vector<float, 8>*>(mine + (q * (32 / lanes) + mine_row) * exchange_row + mine_column);
        epilogue.write(o[p % 2][q], 8, v.at);
      }
      __syncwarp();
    }
  }

  /// Calls f(row, column, values) for all of the tile, four neighbouring columns at a time. `exchange`: all warps' memory.
  template <class F> __device__ __forceinline__ void each(char* exchange, F&& f) const {
    const int warp = threadIdx.x / 32, first = group() * rows * 64 + warp % 4 * 16;        // the warp's first line of left
    float* mine = reinterpret_cast<float*>(exchange) + warp * (exchange_bytes / 4);
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      if constexpr (Swap) {
#pragma unroll
        for (int j = 0; j < columns / 8; ++j) {
          float* to = mine + lane() % 4 * 2 * exchange_row + lane() / 4;    // (8 rows of y, 16 columns)
          to[0] = d[i][4 * j], to[exchange_row] = d[i][4 * j + 1];
          to[8] = d[i][4 * j + 2], to[exchange_row + 8] = d[i][4 * j + 3];
          __syncwarp();
          const int row = lane() / 4, column = lane() % 4 * 4;
          const auto v = *reinterpret_cast<const Vector<float, 4>*>(mine + row * exchange_row + column);
          f(j * 8 + row, first + i * 64 + column, v.at);
          __syncwarp();
        }
      } else {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int from = 0; from < columns; from += part) {
#pragma unroll
            for (int j = 0; j < part / 8; ++j)
              *reinterpret_cast<Vector<float, 2>*>(mine + lane() / 4 * exchange_row + j * 8 + lane() % 4 * 2) = {
                  d[i][(from / 8 + j) * 4 + half * 2], d[i][(from / 8 + j) * 4 + half * 2 + 1]};
            __syncwarp();
#pragma unroll
            for (int q = 0; q < (part + 15) / 16; ++q) {
              const int at = q * 32 + lane(), row = at / (part / 4), column = at % (part / 4) * 4;
              if (part == 8 && row >= 8) continue;
              const auto v = *reinterpret_cast<const Vector<float, 4>*>(mine + row * exchange_row + column);
              f(first + i * 64 + half * 8 + row, from + column, v.at);
            }
            __syncwarp();
          }
      }
    }
  }
};

#endif
