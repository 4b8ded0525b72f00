// How the sums of a HopperTile become y without a way through shared memory.
#pragma once

#include "common/copy_async.cuh"
#include "gemm/hopper_columns.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// A vector of operand I; nothing for -1.
template <int I, class Epilogue> struct HeldOperand {
  using Type = Vector<typename Epilogue::template Operand<I>::Type, Epilogue::width>;
};
template <class Epilogue> struct HeldOperand<-1, Epilogue> { using Type = u32; };

/// The same without a way through shared memory: b's lines lie so that a lane's sums are of Epilogue::width neighbouring columns
/// (walked_channel), and what the program makes of them is stored in accesses of up to 16 bytes.
template <class Tile, class Staging, class Epilogue> class HopperLanes : HopperColumns<Tile, Staging, Epilogue> {
  using Columns = HopperColumns<Tile, Staging, Epilogue>;
  using Columns::kind, Columns::staged, Columns::epilogue_, Columns::start_, Columns::m_, Columns::n_, Columns::row_of_y,
      Columns::column_;
  using Operands = typename Epilogue::Operands;
  static constexpr int width = Epilogue::width, of_lane = Tile::columns / (4 * width), halves = 2 * Tile::rows;
  static_assert(!Tile::swap && of_lane * 4 * width == Tile::columns);
  static __device__ constexpr u32 bits(HopperOperandKind wanted) {
    u32 set = 0;
    for (int i = 0; i < Epilogue::operands; ++i)
      if (kind(i) == wanted) set |= 1u << i;
    return set;
  }

 public:
  static constexpr int bytes = Tile::groups * Columns::columns_bytes;

  __device__ __forceinline__ HopperLanes(const Epilogue& epilogue, char* memory, const typename Tile::Rows& rows, u32 m, u32 n)
      : Columns(epilogue, memory, rows, m, n) {}

  static __device__ __forceinline__ void leave() {}
  /// Begins to copy what the tile at `row`, `column` needs.
  __device__ __forceinline__ void begin(u32 batch, u32 row, u32 column) {
    Columns::set(batch, row, column);
    if constexpr (Columns::columns_bytes > 0) Tile::synchronize_group();     // all are done with the tile before
    Columns::copy_columns(IndicesTo<Epilogue::operands>());
    copy_async_commit();
    if constexpr (staged() >= 0)
#pragma unroll
      for (int q = 0; q < of_lane; ++q)
#pragma unroll
        for (int h = 0; h < halves; ++h) {
          const u32 r = row_of(h), c = column_of(q);
          if (r < m_ && c < n_) held_[q][h] = *reinterpret_cast<const Held*>(epilogue_.template operand<staged()>(start_, r, c));
        }
  }

  __device__ __forceinline__ void finish(const Tile& sums) const {
    copy_async_wait<0>();
    if constexpr (Columns::columns_bytes > 0) Tile::synchronize_group();
#pragma unroll
    for (int q = 0; q < of_lane; ++q) {
      const u32 c = column_of(q);
      if (c >= n_) continue;
      Operands columns;                                                      // (width) of (N)
      read_columns(columns, c - column_, IndicesTo<Epilogue::operands>());
#pragma unroll
      for (int h = 0; h < halves; ++h) {
        const u32 r = row_of(h);
        Operands all = columns;
        epilogue_.template fetch_some<bits(HopperOperandKind::each)>(all, start_, r < m_ ? r : m_ - 1, c, Staging::inside(n_ - c));
        if constexpr (staged() >= 0) get<staged()>(all.x) = held_[q][h];
        typename Epilogue::Sum v[width];                                     // (width) of a row
#pragma unroll
        for (int e = 0; e < width; ++e) v[e] = sums.d[h / 2][(q * (width / 2) + e / 2) * 4 + h % 2 * 2 + e % 2];
        if (r < m_) epilogue_.write(all, Staging::inside(n_ - c), v);
      }
    }
  }

 private:
  __device__ __forceinline__ u32 row_of(int h) const {
    return row_of_y(Tile::group_of_tile() * Tile::rows * 64 + h / 2 * 64 + threadIdx.x / 32 % 4 * 16 + h % 2 * 8 + Tile::lane() / 4);
  }
  __device__ __forceinline__ u32 column_of(int q) const { return column_ + q * (4 * width) + Tile::lane() % 4 * width; }
  template <int... I> __device__ __forceinline__ void read_columns(Operands& o, u32 column, Indices<I...>) const {
    (read_column<I>(o, column), ...);
  }
  template <int I> __device__ __forceinline__ void read_column(Operands& o, u32 column) const {
    if constexpr (kind(I) == HopperOperandKind::by_column) {
      using All = Vector<typename Columns::template Element<I>, width>;
      get<I>(o.x) = *reinterpret_cast<const All*>(Columns::template at_column<I>(column));
    }
  }

  using Held = typename HeldOperand<staged(), Epilogue>::Type;
  Held held_[staged() >= 0 ? of_lane : 1][staged() >= 0 ? halves : 1];       // (width) of y's rows
};

#endif
