// A block's tile of a product on tensor cores: WarpsM x WarpsN warps, each with its part of the sums in registers.
//
//   sums (TileM, TileN) += a (TileM, TileK) · b (TileK, TileN)       a and b in shared memory as OperandCopy lays them out
//
// EA and EB name the instruction's operands (f16, bf16, tf32, i8, …), A and B are the types of the elements in memory. Where an
// operand's lines run along M or N, ldmatrix.trans loads 16-bit types, and single words are loaded for tf32. Of bytes it loads pairs
// along M or N of four steps of K, and a fragment has the even rows of 16 in its first 8, or the even columns of 16 in the first of two.
//
// Zeros: bits (kernels/gemm/gemm.h). With zeros_of_b the tile has the sums over a's rows, with zeros_of_a those over b's columns.
#pragma once

#include "common/mma.cuh"
#include "common/ptx/matrices.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/numbers.cuh"
#include "common/warp.cuh"
#include "gemm/operand_copy.cuh"
#include "kernels/gemm/gemm.h"

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
          bool BKMajor, int BVec, u32 Zeros = 0>
struct TensorTile {
  using A = typename TensorTypes<EA, EB>::A;
  using B = typename TensorTypes<EA, EB>::B;
  using Product = Mma<EA, EB>;
  using Sum = typename Product::Sum;
  static constexpr int tile_m = M, tile_n = N, tile_k = K, stages = StageCount, threads = 32 * WarpsM * WarpsN;
  static constexpr int warp_m = M / WarpsM, warp_n = N / WarpsN, rows = warp_m / 16, columns = warp_n / 8;
  static_assert(warp_m % 16 == 0 && warp_n % 16 == 0 && K % Product::k == 0);
  static constexpr bool words = sizeof(A) == 4;
  static constexpr bool a_pairs = sizeof(A) == 1 && !AKMajor, b_pairs = sizeof(B) == 1 && !BKMajor;
  static constexpr Reads a_reads = words && !AKMajor ? Reads::words : a_pairs ? Reads::pairs : Reads::neighbours;
  static constexpr Reads b_reads = words && !BKMajor ? Reads::words : b_pairs ? Reads::pairs : Reads::neighbours;
  using CopyA = OperandCopy<A, AKMajor, AKMajor ? M : K, AKMajor ? K : M, a_reads, AVec, threads>;
  using CopyB = OperandCopy<B, BKMajor, BKMajor ? N : K, BKMajor ? K : N, b_reads, BVec, threads>;
  static constexpr int stage_bytes = CopyA::tile_bytes + CopyB::tile_bytes;
  // The sums go through shared memory, 16 rows at a time. Rows are padded so that a warp's pairs of sums have no bank conflicts.
  static constexpr int exchange_row = warp_n + 8, exchange_bytes = WarpsM * WarpsN * 16 * exchange_row * 4;
  static constexpr int shared_bytes = stages * stage_bytes > exchange_bytes ? stages * stage_bytes : exchange_bytes;

  static __device__ __forceinline__ void synchronize() { __syncthreads(); }
  static constexpr u32 zeros = Zeros;

  Sum d[rows][columns][4] = {};                                             // (rows, columns) fragments of (16, 8)
  // a, b: of this step of K and of the next.
  u32 a[2][rows][4];                                                        // (rows) fragments of (16, 32 bytes)
  u32 b[2][columns][2];                                                     // (columns) fragments of (32 bytes, 8)
  // This lane's share of the sums over a's rows, and over b's column lane / 4 of a fragment.
  i32 of_a[Zeros & zeros_of_b ? rows : 1][2] = {};
  i32 of_b[Zeros & zeros_of_a ? columns : 1] = {};

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
      } else if constexpr (a_pairs) {
        u32 pairs[4];                                                       // (32 steps of K, 16 rows)
        ptx::ldmatrix_trans(pairs, tile + tile_offset<CopyA::line_bytes, a_reads>(step * 32 + paired_line(lane()), row));
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          a[i][2 * h] = __byte_perm(pairs[2 * h], pairs[2 * h + 1], even_bytes);
          a[i][2 * h + 1] = __byte_perm(pairs[2 * h], pairs[2 * h + 1], odd_bytes);
        }
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
      } else if constexpr (b_pairs) {
        u32 pairs[4];                                                       // (32 steps of K, 16 columns)
        ptx::ldmatrix_trans(pairs, tile + tile_offset<CopyB::line_bytes, b_reads>(step * 32 + paired_line(lane()), column));
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          b[j][h] = __byte_perm(pairs[2 * h], pairs[2 * h + 1], even_bytes);
          b[j + 1][h] = __byte_perm(pairs[2 * h], pairs[2 * h + 1], odd_bytes);
        }
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
      if constexpr (Zeros & zeros_of_b)
#pragma unroll
        for (int i = 0; i < rows; ++i)
#pragma unroll
          for (int w = 0; w < 4; ++w) of_a[i][w % 2] = sum_of_bytes<A>(a[step % 2][i][w], of_a[i][w % 2]);
      if constexpr (Zeros & zeros_of_a)
#pragma unroll
        for (int j = 0; j < columns; ++j)
#pragma unroll
          for (int w = 0; w < 2; ++w) of_b[j] = sum_of_bytes<B>(b[step % 2][j][w], of_b[j]);
#pragma unroll
      for (int i = 0; i < rows; ++i)
#pragma unroll
        for (int j = 0; j < columns; ++j) Product::add(d[i][j], a[step % 2][i], b[step % 2][j]);
    }
    if (!Prefetch) wait_next();
  }

  /// Takes from every sum over so many steps of K what zero points add: with x, a's, and y, that of b's column,
  /// y · (Σ a − steps · x) + x · Σ b. Wraps at 32 bits, as sums do. first: the tile's first column of b.
  template <class Args> __device__ __forceinline__ void take_zeros(const Args& g, u32 first, int steps) {
    const int left = static_cast<int>(g.n - first);
    u32 x = 0, row_sums[rows][2] = {};                                      // of a, less its zero points
    if constexpr (Zeros & zeros_of_a) x = static_cast<u32>(g.a_zero ? static_cast<i32>(*g.a_zero) : g.a_zero_known);
    if constexpr (Zeros & zeros_of_b)
#pragma unroll
      for (int i = 0; i < rows; ++i)
#pragma unroll
        for (int h = 0; h < 2; ++h) row_sums[i][h] = static_cast<u32>(sum_quad(of_a[i][h])) - static_cast<u32>(steps) * x;
#pragma unroll
    for (int j = 0; j < columns; ++j) {
      i32 column_sum = 0;                                                   // of the fragment's column lane / 4
      if constexpr (Zeros & zeros_of_a) column_sum = sum_quad(of_b[j]);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = first_column() + column_of(j, e);
        u32 y = 0, all = 0;
        if constexpr (Zeros & zeros_of_b)
          if (column < left) y = static_cast<u32>(g.b_zero ? static_cast<i32>(*g.b_zero) : g.b_zeros[first + column]);
        if constexpr (Zeros & zeros_of_a)
          all = x * static_cast<u32>(broadcast(column_sum, (lane() % 4 * 2 + e) * 4));
#pragma unroll
        for (int i = 0; i < rows; ++i)
#pragma unroll
          for (int h = 0; h < 2; ++h)
            d[i][j][2 * h + e] = static_cast<i32>(static_cast<u32>(d[i][j][2 * h + e]) - y * row_sums[i][h] - all);
      }
    }
  }

  /// The row of 16, and the column of the warp's, of this lane's sums d[…][j][2 * h + e].
  static __device__ __forceinline__ int row_of(int h) { return a_pairs ? lane() / 4 * 2 + h : lane() / 4 + h * 8; }
  static __device__ __forceinline__ int column_of(int j, int e) {
    return b_pairs ? j / 2 * 16 + lane() % 4 * 4 + e * 2 + j % 2 : j * 8 + lane() % 4 * 2 + e;
  }
  /// Writes the sums of the warp's 16 rows `i` to `exchange` (16, warp_n), column c of a row at place(c), which keeps fours together.
  template <class Place> __device__ __forceinline__ void put(Sum* exchange, int i, const Place& place) const {
    Sum* const rows_at[2] = {exchange + row_of(0) * exchange_row, exchange + row_of(1) * exchange_row};
    if constexpr (b_pairs) {
#pragma unroll
      for (int j = 0; j < columns; j += 2) {
        const int at = place(column_of(j, 0));
#pragma unroll
        for (int h = 0; h < 2; ++h)
          *reinterpret_cast<Vector<Sum, 4>*>(rows_at[h] + at) = {d[i][j][2 * h], d[i][j + 1][2 * h], d[i][j][2 * h + 1],
                                                                 d[i][j + 1][2 * h + 1]};
      }
    } else {
#pragma unroll
      for (int j = 0; j < columns; ++j) {
        const int at = place(column_of(j, 0));
        *reinterpret_cast<Vector<Sum, 2>*>(rows_at[0] + at) = {d[i][j][0], d[i][j][1]};
        *reinterpret_cast<Vector<Sum, 2>*>(rows_at[1] + at) = {d[i][j][2], d[i][j][3]};
      }
    }
  }

  /// Calls f(row, column, values) for all of the tile, four neighbouring columns at a time, whole rows of a warp's part together.
  /// `shared` is free for use in all threads.
  template <class F> __device__ __forceinline__ void each(char* shared, F&& f) const {
    Sum* exchange = reinterpret_cast<Sum*>(shared) + threadIdx.x / 32 * (16 * exchange_row);   // (16, warp_n) of this warp
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      put(exchange, i, [](int column) { return column; });
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
