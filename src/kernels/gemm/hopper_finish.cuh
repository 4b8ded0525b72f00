// How the sums of a HopperTile become y. The program is applied to the sums where they lie in registers; its 16-bit results are
// laid side by side in shared memory and stored 16 bytes at a time. What it reads is on its way while the tile is multiplied:
//
//   columns    (operand) of (N)          of each group: operands of one value a column
//   stage      (buffer) of (lines, 64)   of a team: results, and before them the operand that lies as they do
//
// A team is a warp, whose 16 lines are rows of y; with swap a group, whose lines are all rows of the tile. 16-byte vectors are
// permuted as in common/shared.cuh, so that stmatrix, ldmatrix, copies and stores touch all banks once.
#pragma once

#include "common/cluster.cuh"
#include "common/copy_async.cuh"
#include "common/ptx/barriers.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/copies.cuh"
#include "common/ptx/matrices.cuh"
#include "common/ptx/memory.cuh"
#include "gemm/hopper_tile.cuh"
#include "kernels/pointwise/epilogue.h"
#include "pointwise/epilogue.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// How an epilogue's operands are read, one kind an operand, and how many parts of a team's results are staged at once. Whole: y's
/// columns are a multiple of those of an access, so that one which begins inside lies inside. (With bounds, a vector that is loaded
/// early is waited for early, to be taken apart.)
template <int Buffers, bool Whole, HopperOperandKind... Kind> struct HopperStaging {
  static constexpr int buffers = Buffers;
  static constexpr HopperOperandKind kinds[] = {Kind..., HopperOperandKind::each};
  static constexpr bool gated = ((Kind == HopperOperandKind::up) || ... || false);
  static constexpr int sums = gated ? 2 : 1;                                // of the products, for one column of y
  /// Columns of an access that lie inside, where `left` do from its first on.
  static __device__ __forceinline__ u32 inside(u32 left) { return Whole ? ~0u : left; }
};

/// Operands of one value a column, in the shared memory of each group.
template <class Tile, class Staging, class Epilogue> class HopperColumns {
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
  /// Operand I of a column of the tile.
  template <int I> __device__ __forceinline__ const Element<I>* at_column(u32 column) const {
    return reinterpret_cast<const Element<I>*>(columns_ + columns_before<I>()) + column;
  }

  const Epilogue& epilogue_;
  typename Epilogue::Start start_;
  char* columns_;
  const typename Tile::Rows& rows_;
  u32 m_, n_, row_ = 0, column_ = 0;

 private:
  template <int I> __device__ __forceinline__ void copy_column() const {
    if constexpr (kind(I) == HopperOperandKind::by_column) {
      constexpr int two = 2 * sizeof(Element<I>);
#pragma unroll
      for (int c = 0; c < y_tile_n; c += 256) {
        const int column = c + threadIdx.x % 128 * 2;
        const bool inside = column_ + column < n_;
        if (column < y_tile_n)
          copy_async<two>(shared_address(columns_ + columns_before<I>()) + column * (two / 2),
                          epilogue_.template operand<I>(start_, 0, inside ? column_ + column : 0), inside);
      }
    }
  }
};

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

 public:
  static constexpr int bytes = teams * team_bytes + Tile::groups * columns_bytes;

  /// `memory`: `bytes` of shared memory; m, n: y's extents; row and column below: the tile's.
  __device__ __forceinline__ HopperFinish(const Epilogue& epilogue, char* memory, const typename Tile::Rows& rows, u32 m, u32 n)
      : Columns(epilogue, memory + teams * team_bytes, rows, m, n),
        stage_(shared_address(memory) + (swap ? Tile::group() : threadIdx.x / 32) * team_bytes) {}

  /// Begins to copy what the tile at `row`, `column` needs.
  __device__ __forceinline__ void begin(u32 batch, u32 row, u32 column) {
    Columns::set(batch, row, column);
    if constexpr (columns_bytes > 0) Tile::synchronize_group();              // all are done with the tile before
    else synchronize_team();
    Columns::copy_columns(IndicesTo<Epilogue::operands>());
    if constexpr (staged() >= 0)
#pragma unroll
      for (int p = 0; p < (buffers < parts ? buffers : parts); ++p) copy_staged(p);
    copy_async_commit();
  }

  __device__ __forceinline__ void finish(const Tile& sums) const {
    copy_async_wait<0>();
    if constexpr (columns_bytes > 0) Tile::synchronize_group();
    else synchronize_team();
#pragma unroll
    for (int p = 0; p < parts; ++p) {
      if constexpr (staged() >= 0)
        if (p >= buffers) {
          copy_async_wait<buffers - 1>();
          synchronize_team();
        }
      apply(sums, p, IndicesTo<Epilogue::operands>());
      synchronize_team();
      each_vector(p, [&](u32 shared, u32 row, u32 column, bool inside) {
        if (!inside) return;
        *reinterpret_cast<uint4*>(epilogue_.result(start_, row, column)) = ptx::ld_shared_v4(shared);
      });
      if (p + 1 < parts && (buffers == 1 || staged() >= 0)) synchronize_team();
      if constexpr (staged() >= 0) {
        if (p + buffers < parts) copy_staged(p + buffers);
        copy_async_commit();
      }
    }
  }

 private:
  static __device__ __forceinline__ void synchronize_team() {
    if constexpr (swap) Tile::synchronize_group();
    else __syncwarp();
  }
  __device__ __forceinline__ u32 buffer(int p) const { return stage_ + p % buffers * (lines * 128); }
  /// The team's first line of the tile's left operand.
  static __device__ __forceinline__ int first() {
    return Tile::group_of_tile() * Tile::rows * 64 + (swap ? 0 : threadIdx.x / 32 % 4 * 16);
  }

  /// Calls f(where it is staged, row of y, column of y, whether y has it) for this thread's vectors of part p.
  template <class F> __device__ __forceinline__ void each_vector(int p, F&& f) const {
    const int from = p % parts_of_lines * 64, vectors = swap || y_columns - from >= 64 ? 8 : (y_columns - from) / 8;
    const int member = threadIdx.x % team, down = p / parts_of_lines * 64;
#pragma unroll
    for (int q = 0; q < (lines * vectors + team - 1) / team; ++q) {
      const int at = q * team + member, line = at / vectors, vector = at % vectors;
      if (lines * vectors % team != 0 && at >= lines * vectors) continue;
      const u32 row = row_of_y(swap ? line : first() + down + line);
      const u32 column = column_ + (swap ? first() + down : from) + vector * 8;
      f(buffer(p) + swizzled<128>(line, vector), row, column, row < m_ && column < n_);
    }
  }
  __device__ __forceinline__ void copy_staged(int p) const {
    each_vector(p, [&](u32 shared, u32 row, u32 column, bool inside) {
      copy_async<16>(shared, epilogue_.template operand<staged()>(start_, inside ? row : 0, inside ? column : 0), inside);
    });
  }
  /// Operand I at two neighbours of a row of y, with swap of a column; the first is at `row`, `column` of the tile.
  template <int I>
  __device__ __forceinline__ Vector<Element<I>, 2> operand(u32 row, u32 column, u32 staged_pair, float up, float next_up) const {
    using T = Element<I>;
    using Pair = Vector<T, 2>;
    if constexpr (kind(I) == HopperOperandKind::staged) {
      static_assert(sizeof(T) == 2);
      return reinterpret_cast<const Pair&>(staged_pair);
    } else if constexpr (kind(I) == HopperOperandKind::up) {
      return {From<T>::f32(up), From<T>::f32(next_up)};
    } else if constexpr (kind(I) == HopperOperandKind::by_column) {
      const T* x = Columns::template at_column<I>(column);
      if constexpr (swap) return {*x, *x};
      else return *reinterpret_cast<const Pair*>(x);
    } else {
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

  /// Stages the results of part p.
  template <int... I> __device__ __forceinline__ void apply(const Tile& sums, int p, Indices<I...>) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, i = p / parts_of_lines, from = p % parts_of_lines * 64;
    const int blocks = swap ? Tile::columns / 8 : y_columns - from >= 64 ? 8 : (y_columns - from) / 8;   // of 8 of right
    const int matrix_h = lane / 8 % 2, matrix_j = lane / 16;                // in which of four 8 x 8 matrices the lane's row lies
#pragma unroll
    for (int b = 0; b < blocks; b += 2) {
      const bool two = b + 1 < blocks;
      const u32 shared = buffer(p) + (swap ? swizzled<128>((b + matrix_j) * 8 + lane % 8, warp * 2 + matrix_h)
                                           : swizzled<128>(matrix_h * 8 + lane % 8, b + matrix_j));
      u32 words[4] = {};                                                    // (8 columns of right) of (8 lines of left)
      if constexpr (staged() >= 0) load_matrices(words, shared, two);
#pragma unroll
      for (int j = 0; j < (two ? 2 : 1); ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int left = Tile::group_of_tile() * Tile::rows * 64 + i * 64 + warp * 16 + h * 8 + lane / 4;
          const int right = from + (b + j) * 8 + lane % 4 * 2, at = (from * Staging::sums / 8 + b + j) * 4 + h * 2;
          const auto x = tuple_of(operand<I>(swap ? right : left, swap ? left : right, words[2 * j + h],
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
};

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

/// What finishes sums where they lie.
template <HopperFinishing Finishing, class Tile, class Staging, class Epilogue> struct InRegisters {
  using Type = HopperFinish<Tile, Staging, Epilogue>;
};
template <class Tile, class Staging, class Epilogue>
struct InRegisters<HopperFinishing::side_by_side, Tile, Staging, Epilogue> { using Type = HopperLanes<Tile, Staging, Epilogue>; };

/// The end of a K that is split over the blocks of a cluster, of which block s (of patches, those of patch s) has the sums of split s:
/// each block adds the splits' parts of its share of the tile's rows in their order, and applies the program, `width` columns at a time. What the
/// first of them read is loaded before the tile is multiplied, where there are registers for it. In the ring's memory:
///
///   own        (TileM, pitch)            the block's sums, whose rows it copies to those who add them
///   others     (other split) of (share, pitch)
template <class Tile, int Splits, class Staging, class Epilogue> class ClusterFinish {
  using Sum = typename Tile::Sum;
  static constexpr int width = Epilogue::width, across = Tile::tile_n / width, share = (Tile::tile_m + Splits - 1) / Splits;
  static constexpr int mine = (share * across + Tile::threads - 1) / Tile::threads;   // vectors of a thread
  static constexpr int ahead = mine < 4 ? mine : 4, together = Splits <= 4 ? 2 : 1;
  static constexpr bool early = Tile::rows * Tile::columns / 2 <= 64 && Tile::groups < 3;   // there are registers for it
  // Neither the lanes of a store nor of a load meet in a bank.
  static constexpr int pitch = Tile::swap ? Tile::tile_n + 4 : Tile::tile_n % 16 == 8 ? Tile::tile_n : Tile::tile_n + 8;
  static_assert((Tile::tile_m + (Splits - 1) * share) * pitch * 4 <= Tile::barriers && width % 4 == 0);

 public:
  __device__ __forceinline__ ClusterFinish(const Epilogue& epilogue, u32 batch, u32 row, u32 column, u32 m, u32 n)
      : epilogue_(epilogue), start_(epilogue.start(batch)), row_(row), column_(column), m_(m), n_(n) {
    if constexpr (early) fetch_first();
  }

  /// `parts`: the ring's memory, whose stages have all been multiplied by this group; `ring` its address.
  __device__ __forceinline__ void finish(const Tile& sums, char* parts, u32 ring) {
    Sum* const own = reinterpret_cast<Sum*>(parts);
    Tile::synchronize();                                                     // all groups are done with the ring
    sums.write(own, pitch);
    ptx::fence_proxy_async();
    Tile::synchronize();                                                     // all sums are there
    ptx::barrier_cluster_arrive_relaxed();
    if constexpr (!early) fetch_first();
    ptx::barrier_cluster_wait();                                             // all blocks are done with their rings
    send(ring);
    wait_for_phase(Tile::received(ring), 0);
    const int rank = split();
#pragma unroll
    for (int first = 0; first < mine; first += together) {
      Vector<Sum, 4> part[together][Splits][width / 4];
#pragma unroll
      for (int i = 0; i < together; ++i) {
        u32 r, c;
        if (first + i >= mine || !place(first + i, r, c)) continue;
#pragma unroll
        for (int s = 0; s < Splits; ++s) {
          const int line = s == rank ? r : Tile::tile_m + (s < rank ? s : s - 1) * share + r - rank * share;
#pragma unroll
          for (int v = 0; v < width / 4; ++v)
            part[i][s][v] = *reinterpret_cast<const Vector<Sum, 4>*>(own + line * pitch + c + v * 4);
        }
      }
#pragma unroll
      for (int i = 0; i < together; ++i) {
        u32 r, c;
        if (first + i >= mine || !place(first + i, r, c)) continue;
        Sum sum[width];
#pragma unroll
        for (int e = 0; e < width; ++e) {
          sum[e] = part[i][0][e / 4].at[e % 4];
#pragma unroll
          for (int s = 1; s < Splits; ++s) sum[e] += part[i][s][e / 4].at[e % 4];
        }
        if (first + i >= ahead) fetch(first + i);
        epilogue_.write(operands_[(first + i) % ahead], Staging::inside(n_ - column_ - c), sum);
      }
    }
    __syncwarp();
    meet_cluster();                                                          // no block leaves before its sums have been copied
  }

 private:
  static __device__ __forceinline__ int split() { return static_cast<int>(block_of_cluster() / Tile::Patch::blocks); }
  static __device__ __forceinline__ u32 in_split(u32 shared, int split) {
    return address_in_block(shared, split * Tile::Patch::blocks + block_of_cluster() % Tile::Patch::blocks);
  }
  static __device__ __forceinline__ int rows_of(int block) {
    const int left = Tile::tile_m - block * share;
    return left < 0 ? 0 : left < share ? left : share;
  }
  /// Thread t copies the rows that block t adds to it.
  static __device__ __forceinline__ void send(u32 ring) {
    constexpr int line = pitch * 4;
    const int rank = split(), to = threadIdx.x;
    if (to == rank) ptx::mbarrier_arrive_expect_tx(Tile::received(ring), (Splits - 1) * rows_of(rank) * line);
    if (to < Splits && to != rank && rows_of(to) > 0)
      ptx::cp_async_bulk_to_cluster(in_split(ring + (Tile::tile_m + (rank < to ? rank : rank - 1) * share) * line, to),
                                    ring + to * share * line, rows_of(to) * line, in_split(Tile::received(ring), to));
  }
  /// Where in the tile this thread's `i`-th vector lies; whether y has it.
  __device__ __forceinline__ bool place(int i, u32& row, u32& column) const {
    const int q = i * Tile::threads + threadIdx.x, rank = split();
    row = rank * share + q / across, column = q % across * width;
    return q < rows_of(rank) * across && row_ + row < m_ && column_ + column < n_;
  }
  __device__ __forceinline__ void fetch_first() {
#pragma unroll
    for (int i = 0; i < ahead; ++i) fetch(i);
  }
  __device__ __forceinline__ void fetch(int i) {
    u32 r, c;
    if (place(i, r, c))
      epilogue_.fetch(operands_[i % ahead], start_, row_ + r, column_ + c, Staging::inside(n_ - column_ - c));
  }

  const Epilogue& epilogue_;
  typename Epilogue::Start start_;
  typename Epilogue::Operands operands_[ahead];
  u32 row_, column_, m_, n_;
};

#endif
