// How the sums of a HopperTile become y without a way through shared memory.
#pragma once

#include "common/copy_async.cuh"
#include "gemm/hopper_columns.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// The same without a way through shared memory: b's lines lie so that a lane's sums are of Epilogue::width neighbouring columns
/// (walked_channel), and what the program makes of them is stored in accesses of up to 16 bytes. Sums leave few registers to a
/// lane, so that its vectors of what lies as y does wait in shared memory, which only it reads:
///
///   held   (q, half, thread) of (width)
template <class Tile, class Staging, class Epilogue>
class HopperLanes : HopperColumns<Tile, Staging, Epilogue, ColumnsOfLanes<Epilogue::width, Epilogue::part>> {
  using Columns = HopperColumns<Tile, Staging, Epilogue, ColumnsOfLanes<Epilogue::width, Epilogue::part>>;
  using Columns::kind, Columns::staged, Columns::epilogue_, Columns::start_, Columns::m_, Columns::n_, Columns::row_of_y,
      Columns::column_;
  using Operands = typename Epilogue::Operands;
  using Part = typename Epilogue::PartOperands;
  static constexpr int width = Epilogue::width, of_lane = Tile::columns / (4 * width), halves = 2 * Tile::rows;
  static constexpr int part = Epilogue::part, of_sums = Tile::rows * Tile::columns / 2 * (Tile::stages_apart ? 2 : 1);
  // Rows that read a column's operands once: of so many sums a lane has the registers for four.
  static constexpr int together = halves % 4 == 0 && of_sums <= 64 ? 4 : 2;
  static_assert(!Tile::swap && of_lane * 4 * width == Tile::columns);
  static constexpr int vector_bytes = width * static_cast<int>(sizeof(typename Epilogue::Result));
  static constexpr int held_bytes = staged() >= 0 ? of_lane * halves * 128 * vector_bytes : 0;     // of a group
  static __device__ constexpr u32 bits(HopperOperandKind wanted) {
    u32 set = 0;
    for (int i = 0; i < Epilogue::operands; ++i)
      if (kind(i) == wanted) set |= 1u << i;
    return set;
  }

 public:
  static constexpr int bytes = Tile::groups * (Columns::columns_bytes + held_bytes);

  __device__ __forceinline__ HopperLanes(const Epilogue& epilogue, char* memory, const typename Tile::Rows& rows, u32 m, u32 n)
      : Columns(epilogue, memory + Tile::groups * held_bytes, rows, m, n),
        held_(memory + Tile::group() * held_bytes + threadIdx.x % 128 * vector_bytes) {}

  static __device__ __forceinline__ void leave() {}
  /// Begins to copy what the tile at `row`, `column` needs. new_columns: these are not the columns of the group's tile before.
  __device__ __forceinline__ void begin(u32 batch, u32 row, u32 column, bool new_columns = true) {
    Columns::set(batch, row, column);
    new_columns_ = Columns::columns_bytes > 0 && new_columns;
    if (new_columns_) {
      Tile::synchronize_group();                                             // all are done with the tile before
      Columns::copy_columns(IndicesTo<Epilogue::operands>());
    }
    if constexpr (staged() >= 0)
#pragma unroll
      for (int q = 0; q < of_lane; ++q)
#pragma unroll
        for (int h = 0; h < halves; ++h) {
          const u32 r = row_of(h), c = column_of(q);
          const bool inside = r < m_ && c < n_;
          const auto* from = epilogue_.template operand<staged()>(start_, inside ? r : 0, inside ? c : 0);
          copy_async<vector_bytes>(shared_address(held(q, h)), from, inside);
        }
    copy_async_commit();
  }

  __device__ __forceinline__ void finish(const Tile& sums) const {
    copy_async_wait<0>();
    if (new_columns_) Tile::synchronize_group();
#pragma unroll
    for (int q = 0; q < of_lane; ++q) {
      const u32 c = column_of(q);
      if (c >= n_) continue;
#pragma unroll
      for (int from = 0; from < halves; from += together) {
        Operands all[together];                                              // (width) of rows
#pragma unroll
        for (int k = 0; k < together; ++k) read_row(all[k], from + k, q, c);
        typename Epilogue::Results y[together];
#pragma unroll
        for (int e = 0; e < width; e += part) {
          Part columns;                                                      // (part) of (N)
          // lane_column_place of this lane's columns.
          read_columns(columns, q * (4 * width) + e * 4 + Tile::lane() % 4 * part, IndicesTo<Epilogue::operands>());
#pragma unroll
          for (int k = 0; k < together; ++k) {
            Part x = columns;
            take_part(x, all[k], e, IndicesTo<Epilogue::operands>());
            typename Epilogue::Sum v[part];
#pragma unroll
            for (int s = 0; s < part; ++s) v[s] = sum(sums, from + k, q * width + e + s);
            Epilogue::apply_part(y[k], e, x, v);
          }
        }
#pragma unroll
        for (int k = 0; k < together; ++k)
          if (row_of(from + k) < m_) epilogue_.store_results(all[k], Staging::inside(n_ - c), y[k]);
      }
    }
  }

 private:
  __device__ __forceinline__ u32 row_of(int h) const {
    return row_of_y(Tile::group_of_tile() * Tile::rows * 64 + h / 2 * 64 + threadIdx.x / 32 % 4 * 16 + h % 2 * 8 + Tile::lane() / 4);
  }
  __device__ __forceinline__ u32 column_of(int q) const { return column_ + q * (4 * width) + Tile::lane() % 4 * width; }
  /// The sum of neighbouring column `column` of a lane's in row h.
  static __device__ __forceinline__ typename Epilogue::Sum sum(const Tile& sums, int h, int column) {
    return sums.d[h / 2][column / 2 * 4 + h % 2 * 2 + column % 2];
  }
  /// What of a row lies in no column's shared memory.
  __device__ __forceinline__ void read_row(Operands& o, int h, int q, u32 c) const {
    const u32 r = row_of(h);
    epilogue_.template fetch_some<bits(HopperOperandKind::each)>(o, start_, r < m_ ? r : m_ - 1, c, Staging::inside(n_ - c));
    if constexpr (staged() >= 0)
      words_of(get<staged()>(o.x)) = *reinterpret_cast<const WordsOf<decltype(get<staged()>(o.x))>*>(held(q, h));
  }
  template <int... I> __device__ __forceinline__ void read_columns(Part& x, u32 place, Indices<I...>) const {
    (read_column<I>(x, place), ...);
  }
  template <int I> __device__ __forceinline__ void read_column(Part& x, u32 place) const {
    if constexpr (kind(I) == HopperOperandKind::by_column) {
      using All = Vector<typename Columns::template Element<I>, part>;
      get<I>(x) = *reinterpret_cast<const All*>(Columns::template at_place<I>(place));
    }
  }
  template <int... I> static __device__ __forceinline__ void take_part(Part& x, const Operands& o, int from, Indices<I...>) {
    (take_one<I>(x, o, from), ...);
  }
  template <int I> static __device__ __forceinline__ void take_one(Part& x, const Operands& o, int from) {
    if constexpr (kind(I) != HopperOperandKind::by_column) Epilogue::template take<I>(x, o, from);
  }
  __device__ __forceinline__ char* held(int q, int h) const { return held_ + (q * halves + h) * (128 * vector_bytes); }

  char* held_;
  bool new_columns_ = true;
};

#endif
