// A block's tile of a product by fused multiply-adds in float: for float operands without rounding to tf32, and for types that
// the architecture's tensor cores do not take.
//
//   sums (TileM, TileN) += a (TileM, TileK) · b (TileK, TileN)       a and b in shared memory as OperandCopy lays them out
//
// Each 128 steps of K are summed apart, and these parts are added: the error of one chain of additions grows as sqrt(K). Relative
// root mean square error for random operands: 1.2e-6 in one chain of 4608 steps, 2.3e-7 in parts; of 40000 steps, 3.6e-6 and
// 3.7e-7.
//
// A block has ThreadsM x ThreadsN threads. A thread has blocks of 4 x 4 sums, 4 · ThreadsM rows and 4 · ThreadsN columns apart.
// It reads four steps of K at once, as vectors of four elements along the operand's lines.
#pragma once

#include "gemm/operand_copy.cuh"

template <class T, int M, int N, int K, int ThreadsM, int ThreadsN, int StageCount, bool AKMajor, int AVec, bool BKMajor,
          int BVec>
struct FloatTile {
  using A = T;
  using B = T;
  using Sum = float;
  static constexpr int tile_m = M, tile_n = N, tile_k = K, stages = StageCount, threads = ThreadsM * ThreadsN;
  static constexpr int rows = M / ThreadsM, columns = N / ThreadsN;
  static_assert(rows % 4 == 0 && columns % 4 == 0 && K * sizeof(T) == 128);
  static constexpr Reads a_reads = AKMajor ? Reads::every_fourth : Reads::neighbours;
  static constexpr Reads b_reads = BKMajor ? Reads::every_fourth : Reads::neighbours;
  using CopyA = OperandCopy<T, AKMajor, AKMajor ? M : K, AKMajor ? K : M, a_reads, AVec, threads>;
  using CopyB = OperandCopy<T, BKMajor, BKMajor ? N : K, BKMajor ? K : N, b_reads, BVec, threads>;
  static constexpr int stage_bytes = CopyA::tile_bytes + CopyB::tile_bytes, shared_bytes = stages * stage_bytes;

  static __device__ __forceinline__ void synchronize() { __syncthreads(); }
  static constexpr u32 zeros = 0;

  static constexpr int part_k = 128;                                        // steps of K of a part
  static_assert(part_k % K == 0);
  float d[rows][columns] = {}, part[rows][columns] = {};                    // (rows, columns) of (TileM, TileN)
  int part_left = part_k;                                                   // steps until the part is added to d

  /// Loads four steps of K from step `k` on, for `Count` rows of a, or columns of b.
  template <class Copy, bool KMajor, Reads How, int Count, int Apart>
  static __device__ __forceinline__ void load(float (&x)[Count][4], const char* tile, int first, int k) {   // x: (Count, 4)
#pragma unroll
    for (int block = 0; block < Count; block += 4) {
      const int begin = first * 4 + block * Apart;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const u32 at = KMajor ? tile_offset<Copy::line_bytes, How>(begin + e, k * sizeof(T))
                              : tile_offset<Copy::line_bytes, How>(k + e, begin * sizeof(T));
        const auto v = *reinterpret_cast<const Vector<T, 4>*>(tile + at);   // (4) of a line
#pragma unroll
        for (int f = 0; f < 4; ++f) (KMajor ? x[block + e][f] : x[block + f][e]) = f32(v.at[f]);
      }
    }
  }
  __device__ __forceinline__ void prologue(const char*) {}
  /// Adds the product of one stage, then calls wait_next.
  template <class F> __device__ __forceinline__ void multiply(const char* stage, const char*, F&& wait_next) {
    const char *a_tile = stage, *b_tile = stage + CopyA::tile_bytes;
    const int thread_m = threadIdx.x / ThreadsN, thread_n = threadIdx.x % ThreadsN;
#pragma unroll 1
    for (int k = 0; k < K; k += 4) {
      float a[rows][4], b[columns][4];                                      // (rows, 4 steps of K), (columns, 4 steps of K)
      load<CopyA, AKMajor, a_reads, rows, ThreadsM>(a, a_tile, thread_m, k);
      load<CopyB, BKMajor, b_reads, columns, ThreadsN>(b, b_tile, thread_n, k);
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int i = 0; i < rows; ++i)
#pragma unroll
          for (int j = 0; j < columns; ++j) part[i][j] = fmaf(a[i][e], b[j][e], part[i][j]);
    }
    if ((part_left -= K) == 0) {
      part_left = part_k;
#pragma unroll
      for (int i = 0; i < rows; ++i)
#pragma unroll
        for (int j = 0; j < columns; ++j) d[i][j] += part[i][j], part[i][j] = 0;
    }
    wait_next();
  }
  /// Calls f(row, column, values) for all of the tile, four neighbouring columns at a time.
  template <class F> __device__ __forceinline__ void each(char*, F&& f) const {
    const int thread_m = threadIdx.x / ThreadsN, thread_n = threadIdx.x % ThreadsN;
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int j = 0; j < columns; j += 4) {
        const float v[4] = {d[i][j] + part[i][j], d[i][j + 1] + part[i][j + 1], d[i][j + 2] + part[i][j + 2],
                            d[i][j + 3] + part[i][j + 3]};
        f(thread_m * 4 + i / 4 * 4 * ThreadsM + i % 4, thread_n * 4 + j * ThreadsN, v);
      }
  }
};
