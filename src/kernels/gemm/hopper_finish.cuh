// How the sums of a HopperTile become y. The program is applied to the sums where they lie in registers; its 16-bit results are
// laid side by side in shared memory and stored 16 bytes at a time, or by a tensor map a part at a time. What it reads is on its way
// while the tile is multiplied:
//
//   columns    (operand) of (N)          of each group: operands of one value a column
//   stage      (buffer) of (lines, 64)   of a team: results, and before them the operand that lies as they do
//
// A team is a warp, whose 16 lines are rows of y; with swap a group, whose lines are all rows of the tile. 16-byte vectors are
// permuted as in common/shared.cuh, so that stmatrix, ldmatrix, copies and stores touch all banks once.
#pragma once

#include "common/copy_async.cuh"
#include "common/ptx/barriers.cuh"
#include "common/ptx/matrices.cuh"
#include "common/ptx/memory.cuh"
#include "gemm/hopper_bytes.cuh"
#include "gemm/hopper_cluster_finish.cuh"
#include "gemm/hopper_columns.cuh"
#include "gemm/hopper_lanes.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Tile, class Staging, class Epilogue> class HopperFinish : HopperColumns<Tile, Staging, Epilogue> {
  using Columns = HopperColumns<Tile, Staging, Epilogue>;
  using Columns::kind, Columns::staged, Columns::columns_bytes, Columns::epilogue_, Columns::start_, Columns::m_, Columns::n_,
      Columns::row_of_y, Columns::column_;
  template <int I> using Element = typename Columns::template Element<I>;
  static constexpr bool swap = Tile::swap;
  static constexpr int buffers = Staging::buffers, lines = swap ? Tile::tile_m : 16, team = swap ? 128 : 32;
  static constexpr int y_columns = Tile::columns / Staging::sums;
  static_assert(!Staging::gated || (!swap && Tile::columns % 128 == 0));
  static constexpr int team_bytes = buffers * lines * 128, teams = Tile::groups * (swap ? 1 : 4);
  static constexpr int parts_of_lines = swap ? 1 : (y_columns + 63) / 64, parts = Tile::rows * parts_of_lines;
  static_assert(sizeof(typename Epilogue::Result) == 2);
  static constexpr bool mapped = Staging::mapped;
  static_assert(!mapped || (!swap && lines == hopper_store_lines));
  // A map's swizzle counts from multiples of 1024 bytes.
  static constexpr int before = mapped ? (1024 - Tile::ring_bytes % 1024) % 1024 : 0;

 public:
  static constexpr int bytes = before + teams * team_bytes + Tile::groups * columns_bytes;

  /// `memory`: `bytes` of shared memory; m, n: y's extents; row and column below: the tile's.
  __device__ __forceinline__ HopperFinish(const Epilogue& epilogue, char* memory, const typename Tile::Rows& rows, u32 m, u32 n)
      : Columns(epilogue, memory + before + teams * team_bytes, rows, m, n),
        stage_(shared_address(memory) + before + (swap ? Tile::group() : threadIdx.x / 32) * team_bytes) {}

  /// y's maps, where results are stored by them.
  __device__ __forceinline__ void store_by(const TensorMap* maps) { maps_ = maps; }
  /// Begins to copy what the tile at `row`, `column` needs. new_columns: these are not the columns of the group's tile before.
  __device__ __forceinline__ void begin(u32 batch, u32 row, u32 column, bool new_columns = true) {
    Columns::set(batch, row, column);
    if constexpr (staged() >= 0) stored<0>();
    new_columns_ = columns_bytes > 0 && new_columns;
    if (new_columns_) {
      Tile::synchronize_group();                                             // all are done with the tile before
      Columns::copy_columns(IndicesTo<Epilogue::operands>());
    } else {
      synchronize_team();
    }
    if constexpr (staged() >= 0)
#pragma unroll
      for (int p = 0; p < (buffers < parts ? buffers : parts); ++p) copy_staged(p);
    copy_async_commit();
  }

  __device__ __forceinline__ void finish(const Tile& sums) const {
    copy_async_wait<0>();
    if constexpr (staged() < 0) stored<0>();
    if (new_columns_) Tile::synchronize_group();
    else synchronize_team();
#pragma unroll
    for (int p = 0; p < parts; ++p) {
      if constexpr (staged() >= 0 || mapped)
        if (p >= buffers) {
          if constexpr (staged() >= 0) copy_async_wait<buffers - 1>();
          else stored<buffers - 1>();
          synchronize_team();
        }
      apply(sums, p, IndicesTo<Epilogue::operands>());
      if constexpr (mapped) ptx::fence_proxy_async();
      synchronize_team();
      store(p);
      if (p + 1 < parts && !mapped && (buffers == 1 || staged() >= 0)) synchronize_team();
      if constexpr (staged() >= 0) {
        if (p + buffers < parts) {
          if constexpr (mapped) stored<0>(), synchronize_team();
          copy_staged(p + buffers);
        }
        copy_async_commit();
      }
    }
  }
  /// Behind the last tile: what was staged has been read, and the block may leave.
  static __device__ __forceinline__ void leave() { stored<0>(); }

 private:
  static __device__ __forceinline__ void synchronize_team() {
    if constexpr (swap) Tile::synchronize_group();
    else __syncwarp();
  }
  /// All of the team's stores by maps but the last `Pending` have read what was staged.
  template <int Pending> static __device__ __forceinline__ void stored() {
    if constexpr (mapped)
      if (Tile::lane() == 0) ptx::cp_async_bulk_wait_group_read<Pending>();
  }
  __device__ __forceinline__ u32 buffer(int p) const { return stage_ + p % buffers * (lines * 128); }
  /// The team's first line of the tile's left operand.
  static __device__ __forceinline__ int first() {
    return Tile::group_of_tile() * Tile::rows * 64 + (swap ? 0 : threadIdx.x / 32 % 4 * 16);
  }

  static __device__ constexpr int columns_of(int p) {
    const int left = y_columns - p % parts_of_lines * 64;
    return swap || left >= 64 ? 64 : left;
  }
  /// Where a vector of part p is staged. The box of a map that is narrower than a swizzle's line has its lines side by side.
  __device__ __forceinline__ u32 place(int p, int line, int vector) const {
    if (mapped && columns_of(p) < 64) return buffer(p) + line * (columns_of(p) * 2) + vector * 16;
    return buffer(p) + swizzled<128>(line, vector);
  }
  /// Stores what part p has staged.
  __device__ __forceinline__ void store(int p) const {
    if constexpr (mapped) {
      const u32 row = row_of_y(first() + p / parts_of_lines * 64), column = column_ + p % parts_of_lines * 64;
      if (Tile::lane() != 0) return;
      if (row < m_ && column < n_)
        ptx::cp_async_bulk_tensor_3d_store(maps_ + (columns_of(p) < 64 ? 1 : 0), column, row, 0, buffer(p));
      ptx::cp_async_bulk_commit_group();
    } else {
      each_vector(p, [&](u32 shared, u32 row, u32 column, bool inside) {
        if (!inside) return;
        *reinterpret_cast<uint4*>(epilogue_.result(start_, row, column)) = ptx::ld_shared_v4(shared);
      });
    }
  }

  /// Calls f(where it is staged, row of y, column of y, whether y has it) for this thread's vectors of part p.
  template <class F> __device__ __forceinline__ void each_vector(int p, F&& f) const {
    const int from = p % parts_of_lines * 64, vectors = columns_of(p) / 8;
    const int member = threadIdx.x % team, down = p / parts_of_lines * 64;
#pragma unroll
    for (int q = 0; q < (lines * vectors + team - 1) / team; ++q) {
      const int at = q * team + member, line = at / vectors, vector = at % vectors;
      if (lines * vectors % team != 0 && at >= lines * vectors) continue;
      const u32 row = row_of_y(swap ? line : first() + down + line);
      const u32 column = column_ + (swap ? first() + down : from) + vector * 8;
      f(place(p, line, vector), row, column, row < m_ && column < n_);
    }
  }
  __device__ __forceinline__ void copy_staged(int p) const {
    each_vector(p, [&](u32 shared, u32 row, u32 column, bool inside) {
      copy_async<16>(shared, epilogue_.template operand<staged()>(start_, inside ? row : 0, inside ? column : 0), inside);
    });
  }
  /// Operand I at two neighbours of a row of y, with swap of a column; the first is at `row`, `column` of the tile.
  template <int I>
  __device__ __forceinline__ Vector<Element<I>, 2> operand(u32 row, u32 column, const Vector<Element<I>, 2>& of_columns,
                                                           u32 staged_pair, float up, float next_up) const {
    using T = Element<I>;
    using Pair = Vector<T, 2>;
    if constexpr (kind(I) == HopperOperandKind::staged) {
      static_assert(sizeof(T) == 2);
      return reinterpret_cast<const Pair&>(staged_pair);
    } else if constexpr (kind(I) == HopperOperandKind::up) {
      return {From<T>::f32(up), From<T>::f32(next_up)};
    } else if constexpr (kind(I) == HopperOperandKind::by_column) {
      return of_columns;
    } else {
      static_assert(Epilogue::template Operand<I>::access() != at_an_index);
      // Beyond the output the last element is read.
      const u32 at = row_of_y(row), r = at < m_ ? at : m_ - 1, c = column_ + column < n_ ? column_ + column : n_ - (swap ? 1 : 2);
      if constexpr (swap) {
        const u32 next = row_of_y(row + 1), below = next < m_ ? next : m_ - 1;
        return {*epilogue_.template operand<I>(start_, r, c), *epilogue_.template operand<I>(start_, below, c)};
      } else if constexpr (Epilogue::template Operand<I>::access() == 1) {
        return *reinterpret_cast<const Pair*>(epilogue_.template operand<I>(start_, r, c));
      } else {
        const T x = *epilogue_.template operand<I>(start_, r, c);
        if constexpr (Epilogue::template Operand<I>::access() == 0) return {x, x};
        else return {x, *epilogue_.template operand<I>(start_, r, c + 1)};
      }
    }
  }

  /// Operand I of a pair's columns, with swap of the one column of a pair's rows; of another kind nothing.
  template <int I> __device__ __forceinline__ Vector<Element<I>, 2> of_columns(u32 column) const {
    if constexpr (kind(I) == HopperOperandKind::by_column) {
      const Element<I>* x = Columns::template at_place<I>(column);
      if constexpr (swap) return {*x, *x};
      else return *reinterpret_cast<const Vector<Element<I>, 2>*>(x);
    } else {
      return {};
    }
  }

  /// Stages the results of part p.
  template <int... I> __device__ __forceinline__ void apply(const Tile& sums, int p, Indices<I...>) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, i = p / parts_of_lines, from = p % parts_of_lines * 64;
    const int blocks = swap ? Tile::columns / 8 : columns_of(p) / 8;        // of 8 of right
    const int matrix_h = lane / 8 % 2, matrix_j = lane / 16;                // in which of four 8 x 8 matrices the lane's row lies
    const int left = Tile::group_of_tile() * Tile::rows * 64 + i * 64 + warp * 16 + lane / 4, right = from + lane % 4 * 2;
    // Columns of two blocks of right, or of both halves of left: read before the results of the blocks before are stored, so that
    // no load waits for a store.
    using OfColumns = Tuple<Vector<Element<I>, 2>...>;
    const auto columns_at = [&](int b) { return tuple_of(of_columns<I>(swap ? left + b * 8 : right + b * 8)...); };
    OfColumns next[2] = {columns_at(0), swap || blocks > 1 ? columns_at(1) : OfColumns{}};
#pragma unroll
    for (int b = 0; b < blocks; b += 2) {
      const bool two = b + 1 < blocks;
      const OfColumns columns[2] = {next[0], next[1]};
      if constexpr (!swap) {
        if (b + 2 < blocks) next[0] = columns_at(b + 2);
        if (b + 3 < blocks) next[1] = columns_at(b + 3);
      }
      const u32 shared =
          swap ? place(p, (b + matrix_j) * 8 + lane % 8, warp * 2 + matrix_h) : place(p, matrix_h * 8 + lane % 8, b + matrix_j);
      u32 words[4] = {};                                                    // (8 columns of right) of (8 lines of left)
      if constexpr (staged() >= 0) load_matrices(words, shared, two);
#pragma unroll
      for (int j = 0; j < (two ? 2 : 1); ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int of_left = left + h * 8, of_right = right + (b + j) * 8, at = (from * Staging::sums / 8 + b + j) * 4 + h * 2;
          const auto x = tuple_of(operand<I>(swap ? of_right : of_left, swap ? of_left : of_right, get<I>(columns[swap ? h : j]), words[2 * j + h],
                                           sums.d[i][Staging::gated ? at + 32 : at],
                                           sums.d[i][Staging::gated ? at + 33 : at])...);
          Vector<typename Epilogue::Result, 2> y;
#pragma unroll
          for (int e = 0; e < 2; ++e) Epilogue::Function::apply(sums.d[i][at + e], get<I>(x).at[e]..., y.at[e]);
          words[2 * j + h] = static_cast<u32>(y.at[0].bits) | static_cast<u32>(y.at[1].bits) << 16;
        }
      store_matrices(words, shared, two);
    }
  }
  static __device__ __forceinline__ void load_matrices(u32 (&words)[4], u32 shared, bool two) {
    if (two) {
      if constexpr (swap) ptx::ldmatrix_trans(words, shared);
      else ptx::ldmatrix(words, shared);
    } else {
      u32 some[2];
      if constexpr (swap) ptx::ldmatrix_trans(some, shared);
      else ptx::ldmatrix(some, shared);
      words[0] = some[0], words[1] = some[1];
    }
  }
  static __device__ __forceinline__ void store_matrices(const u32 (&words)[4], u32 shared, bool two) {
    if (two) {
      if constexpr (swap) ptx::stmatrix_trans<4>(shared, words);
      else ptx::stmatrix<4>(shared, words);
    } else {
      if constexpr (swap) ptx::stmatrix_trans<2>(shared, words);
      else ptx::stmatrix<2>(shared, words);
    }
  }

  u32 stage_;
  bool new_columns_ = true;
  const TensorMap* maps_ = nullptr;
};

/// What finishes sums where they lie.
template <HopperFinishing Finishing, class Tile, class Staging, class Epilogue, bool Bytes = Tile::integers && Tile::swap>
struct InRegisters { using Type = HopperFinish<Tile, Staging, Epilogue>; };
template <class Tile, class Staging, class Epilogue>
struct InRegisters<HopperFinishing::in_registers, Tile, Staging, Epilogue, true> { using Type = HopperBytes<Tile, Staging, Epilogue>; };
template <class Tile, class Staging, class Epilogue>
struct InRegisters<HopperFinishing::side_by_side, Tile, Staging, Epilogue, false> { using Type = HopperLanes<Tile, Staging, Epilogue>; };

#endif
