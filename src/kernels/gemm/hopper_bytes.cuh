// How the sums of a HopperTile of integers whose channels fill the instruction's 64 rows (swap) become rows of bytes.
#pragma once

#include "common/copy_async.cuh"
#include "common/ptx/matrices.cuh"
#include "gemm/hopper_columns.cuh"
#include "kernels/common/swizzle.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// b's lines lie so that the sums of a lane's two lines in 16 are of neighbouring channels (paired_channel): the bytes made of them are
/// one element of a matrix that stmatrix turns, and a warp's 16 channels of a pixel 16 bytes. What the program reads of a column a lane
/// keeps in registers; what lies as y does is copied to where the results will be, and turned by ldmatrix:
///
///   stage   (group) of (TileM, 64 · rows)   bytes, vectors of 16 permuted as in kernels/common/swizzle.h
template <class Tile, class Staging, class Epilogue> class HopperBytes {
  using Result = typename Epilogue::Result;
  using Part = typename Epilogue::PartOperands;
  template <int I> using Element = typename Epilogue::template Operand<I>::Type;
  static constexpr int line = 64 * Tile::rows, lines = Tile::tile_m, vectors = line / 16, blocks = Tile::columns / 8;
  static constexpr int group_bytes = lines * line;
  static_assert(Tile::swap && Tile::integers && sizeof(Result) == 1 && Epilogue::width == 16 && blocks % 2 == 0);
  static __device__ constexpr HopperOperandKind kind(int operand) { return Staging::kinds[operand]; }
  static __device__ constexpr int staged() {
    for (int i = 0; i < Epilogue::operands; ++i)
      if (kind(i) == HopperOperandKind::staged) return i;
    return -1;
  }
  static __device__ constexpr bool reads_columns_and_staged() {
    for (int i = 0; i < Epilogue::operands; ++i)
      if (kind(i) != HopperOperandKind::staged && kind(i) != HopperOperandKind::by_column) return false;
    return true;
  }
  static_assert(reads_columns_and_staged());
  /// Of a lane's two channels. Of what is staged nothing.
  template <class Numbers> struct OfColumns;
  template <int... I> struct OfColumns<Indices<I...>> {
    using Type = Tuple<Vector<Element<I>, 2>...>;
  };

 public:
  static constexpr int bytes = Tile::groups * group_bytes;

  /// `memory`: `bytes` of shared memory; m, n: y's extents.
  __device__ __forceinline__ HopperBytes(const Epilogue& epilogue, char* memory, const typename Tile::Rows& rows, u32 m, u32 n)
      : epilogue_(epilogue), rows_(rows), stage_(shared_address(memory) + Tile::group() * group_bytes), m_(m), n_(n) {}

  static __device__ __forceinline__ void leave() {}
  /// Begins to bring what the tile at `row`, `column` needs.
  __device__ __forceinline__ void begin(u32 batch, u32 row, u32 column, bool = true) {
    start_ = epilogue_.start(batch), row_ = row, column_ = column + Tile::group_of_tile() * line;
    Tile::synchronize_group();                                               // all have stored the tile before
    if constexpr (staged() >= 0) {
      each_vector([&](u32 shared, u32 r, u32 c, bool inside) {
        copy_async<16>(shared, epilogue_.template operand<staged()>(start_, inside ? r : 0, inside ? c : 0), inside);
      });
      copy_async_commit();
    }
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      const u32 channel = column_ + i * 64 + threadIdx.x / 32 % 4 * 16 + Tile::lane() / 4 * 2;
      read_columns(columns_[i], channel < n_ ? channel : 0, IndicesTo<Epilogue::operands>());
    }
  }

  __device__ __forceinline__ void finish(const Tile& sums) const {
    if constexpr (staged() >= 0) {
      copy_async_wait<0>();
      Tile::synchronize_group();
    }
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
      for (int b = 0; b < blocks; b += 4) {
        const bool four = b + 4 <= blocks;                                   // matrices of 8 pixels; else two
        const int matrix = Tile::lane() / 8 % (four ? 4 : 2);
        const u32 shared = stage_ + swizzled<line>((b + matrix) * 8 + Tile::lane() % 8, i * 4 + threadIdx.x / 32 % 4);
        u32 words[4] = {};
        if constexpr (staged() >= 0) {
          if (four) {
            ptx::ldmatrix_trans(words, shared);
          } else {
            u32 some[2];
            ptx::ldmatrix_trans(some, shared);
            words[0] = some[0], words[1] = some[1];
          }
        }
        typename Epilogue::Results y;
#pragma unroll
        for (int j = 0; j < (four ? 4 : 2); ++j) {
          Part x;
          take(x, columns_[i], words[j], IndicesTo<Epilogue::operands>());
          const auto& d = sums.d[i];
          const int at = (b + j) * 4;                                        // two channels of a pixel, then of the next
          const typename Epilogue::Sum v[4] = {d[at], d[at + 2], d[at + 1], d[at + 3]};
          Epilogue::apply_part(y, 4 * j, x, v);
        }
        const u32(&results)[4] = reinterpret_cast<const u32(&)[4]>(y);
        if (four) ptx::stmatrix_trans<4>(shared, results);
        else ptx::stmatrix_trans<2>(shared, results);
      }
    Tile::synchronize_group();
    each_vector([&](u32 shared, u32 r, u32 c, bool inside) {
      if (inside) *reinterpret_cast<uint4*>(epilogue_.result(start_, r, c)) = ptx::ld_shared_v4(shared);
    });
  }

 private:
  /// Calls f(where it is staged, row of y, column of y, whether y has it) for this thread's vectors.
  template <class F> __device__ __forceinline__ void each_vector(F&& f) const {
    constexpr int all = lines * vectors;
#pragma unroll
    for (int q = 0; q < (all + 127) / 128; ++q) {
      const int at = q * 128 + threadIdx.x % 128, of_line = at / vectors, vector = at % vectors;
      if (all % 128 != 0 && at >= all) continue;
      const u32 row = rows_.row_of_y(row_ + of_line), column = column_ + vector * 16;
      f(stage_ + swizzled<line>(of_line, vector), row, column, row < m_ && column < n_);
    }
  }
  template <int... I>
  __device__ __forceinline__ void read_columns(typename OfColumns<Indices<I...>>::Type& x, u32 channel, Indices<I...>) const {
    (read_column<I>(get<I>(x), channel), ...);
  }
  template <int I> __device__ __forceinline__ void read_column(Vector<Element<I>, 2>& x, u32 channel) const {
    if constexpr (kind(I) == HopperOperandKind::by_column)
      x = *reinterpret_cast<const Vector<Element<I>, 2>*>(epilogue_.template operand<I>(start_, 0, channel));
  }
  template <int... I>
  static __device__ __forceinline__ void take(Part& x, const typename OfColumns<Indices<I...>>::Type& columns, u32 word,
                                              Indices<I...>) {
    (take_one<I>(get<I>(x), get<I>(columns), word), ...);
  }
  template <int I>
  static __device__ __forceinline__ void take_one(Vector<Element<I>, 4>& x, const Vector<Element<I>, 2>& of_columns, u32 word) {
    if constexpr (kind(I) == HopperOperandKind::staged) reinterpret_cast<u32&>(x) = word;
    else x = {of_columns.at[0], of_columns.at[1], of_columns.at[0], of_columns.at[1]};
  }

  const Epilogue& epilogue_;
  const typename Tile::Rows& rows_;
  typename Epilogue::Start start_;
  typename OfColumns<IndicesTo<Epilogue::operands>>::Type columns_[Tile::rows];
  u32 stage_, m_, n_, row_ = 0, column_ = 0;
};

#endif
