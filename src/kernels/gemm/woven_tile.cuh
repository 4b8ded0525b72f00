// A TensorTile of 16-bit operands or bytes whose fragments load one by one between the products that use them, across steps of K
// and across stages, and whose copies of a later stage are issued one by one between them too: tensor cores have products of the
// warp under way all the time, and shared memory's reads and writes take turns.
//
//   products of a step     row 0: columns 0 … , row 1: columns 0 … , …       row, columns: fragments of (16, 8)
//   a                      a ring of Ring fragments: while row n multiplies, the fragment of row n + Ring - 1 loads
//   b                      all columns of the step; those of the next load where they lie as the last row is done with them
//
// The copies of a later stage are issued behind the first row and a step later. Threads wait for the next stage, and meet, just
// before its first fragment loads.
//
// Chunked: lines of an operand that run along M or N are cut into chunks of 64, 128 bytes each, as tensor maps bring them:
// (chunks, TileK, 128 bytes).
#pragma once

#include "gemm/tensor_tile.cuh"

template <class EA, class EB, int M, int N, int K, int WarpsM, int WarpsN, int StageCount, int Ring, bool AKMajor, int AVec,
          bool BKMajor, int BVec, bool Chunked = false>
struct WovenTile : TensorTile<EA, EB, M, N, K, WarpsM, WarpsN, StageCount, false, AKMajor, AVec, BKMajor, BVec> {
  using Base = TensorTile<EA, EB, M, N, K, WarpsM, WarpsN, StageCount, false, AKMajor, AVec, BKMajor, BVec>;
  using typename Base::CopyA;
  using typename Base::CopyB;
  using typename Base::Product;
  using Base::columns;
  using Base::d;
  using Base::first_column;
  using Base::first_row;
  using Base::lane;
  using Base::rows;
  static_assert(!Base::words && !Base::a_pairs && !Base::b_pairs);
  static constexpr bool woven = true;
  static constexpr int ring_bytes = StageCount * Base::stage_bytes;         // of stages
  static constexpr int steps = K / Product::k, products = steps * rows, ahead = Ring - 1;
  static_assert(products % Ring == 0 && products > Ring, "stages begin alike");

  u32 ring[Ring][4];           // fragments of a: of row n of the stage at n % Ring
  u32 right[columns][2];       // fragments of b

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int j = 0; j < columns; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) d[i][j][e] = 0;
  }
  __device__ __forceinline__ void prologue(const char* stage) { prologue(shared_address(stage)); }
  __device__ __forceinline__ void prologue(u32 tile) {
#pragma unroll
    for (int n = 0; n < ahead; ++n) load_row(tile, n);
#pragma unroll
    for (int j = 0; j < columns; j += 2) load_columns(tile + CopyA::tile_bytes, 0, j);
  }
  /// Adds the product of one stage, whose first fragments are loaded, and loads those of the stage after it. issue_a() and issue_b()
  /// issue the copies of a later stage, wait_next() waits for the next.
  template <class IssueA, class IssueB, class Wait>
  __device__ __forceinline__ void multiply_woven(u32 here, u32 next, IssueA&& issue_a, IssueB&& issue_b, Wait&& wait_next) {
    constexpr int waits = products - ahead, issues_b = waits > rows ? rows : waits - 1;
#pragma unroll
    for (int n = 0; n < products; ++n) {
      const int step = n / rows, i = n % rows;
      if (n == waits) wait_next();
      load_row(n + ahead < products ? here : next, n + ahead);
      const u32 b = (step + 1 < steps ? here : next) + CopyA::tile_bytes;
#pragma unroll
      for (int j = 0; j < columns; ++j) {
        Product::add(d[i][j], ring[n % Ring], right[j]);
        if (i + 1 == rows && j % 2 == 1) load_columns(b, step + 1, j - 1);
      }
      if (n == 0) issue_a();
      if (n == issues_b) issue_b();
    }
  }

 private:
  /// An address of `byte` bytes further on in a line of LineBytes, whose vectors are permuted: no bit of `byte` below 128 is set in
  /// the place of the lane's own vector in its 128 bytes.
  template <int LineBytes> static __device__ __forceinline__ u32 moved(u32 address, int byte) {
    constexpr int period = LineBytes < 128 ? LineBytes : 128;
    return (address ^ (byte % period)) + byte / period * period;
  }
  /// Byte `byte` of line `line`, which runs along M or N, of TileK lines of LineBytes.
  template <int LineBytes> static __device__ __forceinline__ u32 across(u32 line, u32 byte) {
    if constexpr (Chunked && LineBytes > 128) return byte / 128 * (K * 128) + tile_offset<128, Reads::neighbours>(line, byte % 128);
    else return tile_offset<LineBytes, Reads::neighbours>(line, byte);
  }
  /// From a line to the next.
  template <int LineBytes> static constexpr int pitch = Chunked && LineBytes > 128 ? 128 : LineBytes;
  __device__ __forceinline__ void load_row(u32 tile, int n) {
    const int step = n / rows % steps, i = n % rows;
    u32(&to)[4] = ring[n % Ring];
    if constexpr (AKMajor) {
      const LaneAddress at = left_fragment(lane());
      const u32 first = tile + tile_offset<CopyA::line_bytes, Reads::neighbours>(first_row() + at.line, at.byte);
      ptx::ldmatrix(to, moved<CopyA::line_bytes>(first, step * 32) + i * 16 * CopyA::line_bytes);
    } else {
      const u32 line = step * 16 + lane() / 16 * 8 + lane() % 8, row = first_row() + i * 16 + lane() / 8 % 2 * 8;
      ptx::ldmatrix_trans(to, tile + across<CopyA::line_bytes>(line, row * 2));
    }
  }
  __device__ __forceinline__ void load_columns(u32 tile, int s, int j) {
    const int step = s % steps;
    u32 both[4];                                                            // fragments of two columns, (32 bytes, 16)
    if constexpr (BKMajor) {
      const LaneAddress at = right_fragments(lane());
      const u32 first = tile + tile_offset<CopyB::line_bytes, Reads::neighbours>(first_column() + at.line, at.byte);
      ptx::ldmatrix(both, moved<CopyB::line_bytes>(first, step * 32) + j * 8 * CopyB::line_bytes);
    } else if constexpr (Base::warp_n % 64 == 0) {
      const u32 first = tile + across<CopyB::line_bytes>(lane() % 16, (first_column() + lane() / 16 * 8) * 2);
      ptx::ldmatrix_trans(both, moved<pitch<CopyB::line_bytes>>(first, j % 8 * 16) + j / 8 * across<CopyB::line_bytes>(0, 128) +
                                    step * 16 * pitch<CopyB::line_bytes>);
    } else {
      const u32 line = step * 16 + lane() % 16, column = first_column() + j * 8 + lane() / 16 * 8;
      ptx::ldmatrix_trans(both, tile + across<CopyB::line_bytes>(line, column * 2));
    }
#pragma unroll
    for (int w = 0; w < 4; ++w) right[j + w / 2][w % 2] = both[w];
  }
};
