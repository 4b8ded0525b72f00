// What the ends of a HopperTile share: how operands are read, and those of one value a column, which lie in shared memory.
#pragma once

#include "common/copy_async.cuh"
#include "gemm/hopper_tile.cuh"
#include "kernels/pointwise/epilogue.h"
#include "pointwise/epilogue.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// How an epilogue's operands are read, one kind an operand, and how many parts of a team's results are staged at once. Mapped:
/// results are stored by maps. Whole: y's columns are a multiple of those of an access, so that one which begins inside lies inside.
/// (With bounds, a vector that is loaded early is waited for early, to be taken apart.)
template <int Buffers, bool Mapped, bool Whole, HopperOperandKind... Kind> struct HopperStaging {
  static constexpr int buffers = Buffers;
  static constexpr bool mapped = Mapped, whole = Whole;
  static constexpr HopperOperandKind kinds[] = {Kind..., HopperOperandKind::each};
  static constexpr bool gated = ((Kind == HopperOperandKind::up) || ... || false);
  static constexpr int sums = gated ? 2 : 1;                                // of the products, for one column of y
  /// Columns of an access that lie inside, where `left` do from its first on.
  static __device__ __forceinline__ u32 inside(u32 left) { return Whole ? ~0u : left; }
};

/// Columns lie in their order.
struct ColumnsInOrder {
  static __device__ __forceinline__ int place(int column) { return column; }
};
/// As lanes read them that have neighbouring columns.
template <int Width, int Part> struct ColumnsOfLanes {
  static __device__ __forceinline__ int place(int column) { return lane_column_place(column, Width, Part); }
};

/// Operands of one value a column, in the shared memory of each group.
template <class Tile, class Staging, class Epilogue, class Places = ColumnsInOrder> class HopperColumns {
  static constexpr int y_tile_n = Tile::tile_n / Staging::sums;
  template <int I> static __device__ constexpr int column_bytes() {
    return kind(I) == HopperOperandKind::by_column ? (y_tile_n * static_cast<int>(sizeof(Element<I>)) + 15) / 16 * 16 : 0;
  }

 protected:
  template <int I> using Element = typename Epilogue::template Operand<I>::Type;
  static __device__ constexpr HopperOperandKind kind(int operand) { return Staging::kinds[operand]; }
  template <int I> static __device__ constexpr int columns_before() {
    if constexpr (I == 0) return 0;
    else return columns_before<I - 1>() + column_bytes<I - 1>();
  }
  static constexpr int columns_bytes = columns_before<Epilogue::operands>();
  static __device__ constexpr int staged() {
    for (int i = 0; i < Epilogue::operands; ++i)
      if (kind(i) == HopperOperandKind::staged) return i;
    return -1;
  }

  /// `columns`: of the first group.
  __device__ __forceinline__ HopperColumns(const Epilogue& epilogue, char* columns, const typename Tile::Rows& rows, u32 m, u32 n)
      : epilogue_(epilogue), columns_(columns + Tile::group() * columns_bytes), rows_(rows), m_(m), n_(n) {}
  /// The row of y that row `row` of the tile is; m_ or more where y has none.
  __device__ __forceinline__ u32 row_of_y(u32 row) const { return rows_.row_of_y(row_ + row); }

  /// Where the next tile lies.
  __device__ __forceinline__ void set(u32 batch, u32 row, u32 column) {
    start_ = epilogue_.start(batch);
    row_ = row, column_ = column;
  }
  template <int... I> __device__ __forceinline__ void copy_columns(Indices<I...>) const { (copy_column<I>(), ...); }
  /// Operand I of the column of the tile whose place this is.
  template <int I> __device__ __forceinline__ const Element<I>* at_place(u32 place) const {
    return reinterpret_cast<const Element<I>*>(columns_ + columns_before<I>()) + place;
  }

  const Epilogue& epilogue_;
  typename Epilogue::Start start_;
  char* columns_;
  const typename Tile::Rows& rows_;
  u32 m_, n_, row_ = 0, column_ = 0;

 private:
  template <int I> __device__ __forceinline__ void copy_column() const {
    if constexpr (kind(I) == HopperOperandKind::by_column) {
      constexpr int size = sizeof(Element<I>), together = Staging::whole || size == 2 ? 2 : 1;
#pragma unroll
      for (int c = 0; c < y_tile_n; c += 128 * together) {
        const int column = c + threadIdx.x % 128 * together;
        const bool inside = column_ + column < n_;
        if (column < y_tile_n)
          copy_async<together * size>(shared_address(columns_ + columns_before<I>()) + Places::place(column) * size,
                                      epilogue_.template operand<I>(start_, 0, inside ? column_ + column : 0), inside);
      }
    }
  }
};

#endif
