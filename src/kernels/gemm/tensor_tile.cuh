// A block's tile of a product on tensor cores: WarpsM x WarpsN warps, each with its part of the sums in registers.
//
//   sums (TileM, TileN) += a (TileM, TileK) · b (TileK, TileN)       a and b in shared memory as OperandCopy lays them out
//
// EA and EB name the instruction's operands (f16, bf16, tf32, i8, …), A and B are the types of the elements in memory. Where an
// operand's lines run along M or N, ldmatrix.trans loads 16-bit types, and single words are loaded for tf32; the lines of 8-bit
// operands always run along K.
#pragma once

#include "common/mma.cuh"
#include "common/ptx/matrices.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/numbers.cuh"
#include "common/warp.cuh"
#include "gemm/operand_copy.cuh"

template <class EA, class EB> struct TensorTypes {
  using A = EA;
  using B = EB;
};
template <> struct TensorTypes<tf32, tf32> {
  using A = float;
  using B = float;
};

/// sum plus the four bytes of x.
template <class T> __device__ __forceinline__ i32 sum_of_bytes(u32 x, i32 sum) {
  if constexpr (T(-1) < T(0)) return ptx::dp4a_s32_s32(x, 0x01010101, sum);
  else return ptx::dp4a_u32_s32(x, 0x01010101, sum);
}

template <class EA, class EB, int M, int N, int K, int WarpsM, int WarpsN, int StageCount, bool Prefetch, bool AKMajor, int AVec,
          bool BKMajor, int BVec, bool RowSums = false>
struct TensorTile {
  using A = typename TensorTypes<EA, EB>::A;
  using B = typename TensorTypes<EA, EB>::B;
  using Product = Mma<EA, EB>;
  using Sum = typename Product::Sum;
  static constexpr int tile_m = M, tile_n = N, tile_k = K, stages = StageCount, threads = 32 * WarpsM * WarpsN;
  static constexpr int warp_m = M / WarpsM, warp_n = N / WarpsN, rows = warp_m / 16, columns = warp_n / 8;
  static_assert(warp_m % 16 == 0 && warp_n % 16 == 0 && K % Product::k == 0);
  static constexpr bool words = sizeof(A) == 4;
  static constexpr Reads a_reads = words && !AKMajor ? Reads::words : Reads::neighbours;
  static constexpr Reads b_reads = words && !BKMajor ? Reads::words : Reads::neighbours;
  using CopyA = OperandCopy<A, AKMajor, AKMajor ? M : K, AKMajor ? K : M, a_reads, AVec, threads>;
  using CopyB = OperandCopy<B, BKMajor, BKMajor ? N : K, BKMajor ? K : N, b_reads, BVec, threads>;
  static constexpr int stage_bytes = CopyA::tile_bytes + CopyB::tile_bytes;
  // The sums go through shared memory, 16 rows at a time. Rows are padded so that a warp's pairs of sums have no bank conflicts.
  static constexpr int exchange_row = warp_n + 8, exchange_bytes = WarpsM * WarpsN * 16 * exchange_row * 4;
  static constexpr int shared_bytes = stages * stage_bytes > exchange_bytes ? stages * stage_bytes : exchange_bytes;

  static __device__ __forceinline__ void synchronize() { __syncthreads(); }
  static constexpr bool row_sums = RowSums;

  Sum d[rows][columns][4] = {};                                             // (rows, columns) fragments of (16, 8)
  // a, b: of this step of K and of the next.
  u32 a[2][rows][4];                                                        // (rows) fragments of (16, 32 bytes)
  u32 b[2][columns][2];                                                     // (columns) fragments of (32 bytes, 8)
  i32 of_a[RowSums ? rows : 1][2] = {};                                     // this lane's share of the sums over a's rows

  static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
  static __device__ __forceinline__ int first_row() { return static_cast<int>(threadIdx.x) / 32 / WarpsN * warp_m; }
  static __device__ __forceinline__ int first_column() { return static_cast<int>(threadIdx.x) / 32 % WarpsN * warp_n; }

  static __device__ __forceinline__ u32 word(u32 address) { return tf32_of(ptx::ld_shared_f32(address)); }
  /// Loads the fragments of all of the warp's rows, or columns, for step `step` of K.
  static __device__ __forceinline__ void load_a(u32 (&a)[rows][4], u32 tile, int step) {
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const int row = first_row() + i * 16;
      if constexpr (AKMajor) {
        const LaneAddress at = left_fragment(lane());
        ptx::ldmatrix(a[i], tile + tile_offset<CopyA::line_bytes, a_reads>(row + at.line, step * 32 + at.byte));
        if constexpr (words)
#pragma unroll
          for (int w = 0; w < 4; ++w) a[i][w] = tf32_of(__uint_as_float(a[i][w]));
      } else if constexpr (words) {
#pragma unroll
        for (int w = 0; w < 4; ++w)
          a[i][w] = word(tile + tile_offset<CopyA::line_bytes, a_reads>(step * 8 + w / 2 * 4 + lane() % 4,
                                                                        (row + w % 2 * 8 + lane() / 4) * 4));
      } else {
        ptx::ldmatrix_trans(a[i], tile + tile_offset<CopyA::line_bytes, a_reads>(step * 16 + lane() / 16 * 8 + lane() % 8,
                                                                                 (row + lane() / 8 % 2 * 8) * 2));
      }
    }
  }
  static __device__ __forceinline__ void load_b(u32 (&b)[columns][2], u32 tile, int step) {
#pragma unroll
    for (int j = 0; j < columns; j += 2) {
      const int column = first_column() + j * 8;
      if constexpr (words && !BKMajor) {
#pragma unroll
        for (int w = 0; w < 4; ++w)
          b[j + w / 2][w % 2] = word(tile + tile_offset<CopyB::line_bytes, b_reads>(step * 8 + w % 2 * 4 + lane() % 4,
                                                                                    (column + w / 2 * 8 + lane() / 4) * 4));
      } else {
        u32 both[4];                                                        // fragments of two columns, (32 bytes, 16)
        if constexpr (BKMajor) {
          const LaneAddress at = right_fragments(lane());
          ptx::ldmatrix(both, tile + tile_offset<CopyB::line_bytes, b_reads>(column + at.line, step * 32 + at.byte));
        } else
          ptx::ldmatrix_trans(both, tile + tile_offset<CopyB::line_bytes, b_reads>(step * 16 + lane() % 16,
                                                                                   (column + lane() / 16 * 8) * 2));
#pragma unroll
        for (int w = 0; w < 4; ++w) b[j + w / 2][w % 2] = words ? tf32_of(__uint_as_float(both[w])) : both[w];
      }
    }
  }

  /// Loads the fragments of a stage's first step of K.
  __device__ __forceinline__ void load_first(const char* stage) {
    const u32 tile = shared_address(stage);
    load_a(a[0], tile, 0);
    load_b(b[0], tile + CopyA::tile_bytes, 0);
  }
  __device__ __forceinline__ void prologue(const char* stage) {
    if constexpr (Prefetch) load_first(stage);
  }
  /// Adds the product of one stage. The fragments of the next step load while those of this step multiply. With Prefetch, so do
  /// the first fragments of the next stage, once `wait_next` has waited for it: multiplications are then in flight across every
  /// barrier, at the price of registers that live across it.
  template <class F> __device__ __forceinline__ void multiply(const char* stage, const char* after, F&& wait_next) {
    constexpr int steps = K / Product::k;
    static_assert(steps % 2 == 0, "the fragments' buffers take turns");
    if constexpr (!Prefetch) load_first(stage);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      const bool last = step + 1 == steps;
      if (Prefetch && last) wait_next();
      if (Prefetch || !last) {
        const u32 tile = shared_address(last ? after : stage);
        load_a(a[(step + 1) % 2], tile, last ? 0 : step + 1);
        load_b(b[(step + 1) % 2], tile + CopyA::tile_bytes, last ? 0 : step + 1);
      }
      if constexpr (RowSums)
#pragma unroll
        for (int i = 0; i < rows; ++i)
#pragma unroll
          for (int w = 0; w < 4; ++w) of_a[i][w % 2] = sum_of_bytes<A>(a[step % 2][i][w], of_a[i][w % 2]);
#pragma unroll
      for (int i = 0; i < rows; ++i)
#pragma unroll
        for (int j = 0; j < columns; ++j) Product::add(d[i][j], a[step % 2][i], b[step % 2][j]);
    }
    if (!Prefetch) wait_next();
  }

  /// Takes zeros[column] times its row's sum over a from every sum: what the zero points of b's columns add. `left`: columns from
  /// the tile's first on.
  __device__ __forceinline__ void take_zeros(const i32* zeros, int left) {
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) of_a[i][h] = sum_quad(of_a[i][h]);
#pragma unroll
    for (int j = 0; j < columns; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = first_column() + j * 8 + lane() % 4 * 2 + e, zero = column < left ? zeros[column] : 0;
#pragma unroll
        for (int i = 0; i < rows; ++i) d[i][j][e] -= zero * of_a[i][0], d[i][j][2 + e] -= zero * of_a[i][1];
      }
  }

  /// Calls f(row, column, values) for all of the tile, four neighbouring columns at a time, whole rows of a warp's part together.
  /// `shared` is free for use in all threads.
  template <class F> __device__ __forceinline__ void each(char* shared, F&& f) const {
    Sum* exchange = reinterpret_cast<Sum*>(shared) + threadIdx.x / 32 * (16 * exchange_row);   // (16, warp_n) of this warp
#pragma unroll
    for (int i = 0; i < rows; ++i) {
#pragma unroll
      for (int j = 0; j < columns; ++j) {
        Sum* to = exchange + lane() / 4 * exchange_row + j * 8 + lane() % 4 * 2;
        *reinterpret_cast<Vector<Sum, 2>*>(to) = {d[i][j][0], d[i][j][1]};
        *reinterpret_cast<Vector<Sum, 2>*>(to + 8 * exchange_row) = {d[i][j][2], d[i][j][3]};
      }
      __syncwarp();
#pragma unroll 2
      for (int q = 0; q < warp_n / 8; ++q) {
        const int at = q * 32 + lane(), row = at / (warp_n / 4), column = at % (warp_n / 4) * 4;
        const auto v = *reinterpret_cast<const Vector<Sum, 4>*>(exchange + row * exchange_row + column);   // (4) of a row
        f(first_row() + i * 16 + row, first_column() + column, v.at);
      }
      __syncwarp();
    }
  }
};
