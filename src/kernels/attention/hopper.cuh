// Attention by tiles on Hopper's own instructions: Shah et al., "FlashAttention-3", arXiv:2407.08608.
//
//   q, k, v, y    as attention/problem.cuh says, f16 or bf16, by tensor maps of [batch, heads, rows, columns]
//
// A block has 64 rows of queries for each of its Groups groups of four warps, and one warp more that has tiles of Keys keys and
// values brought (TMA) into a ring of Stages. A group goes over the tiles: S = Q Kt by wgmma from shared memory, the softmax's
// running maximum and sum in registers, O += P V with P in registers: the sums of a product lie as the left operand of the next.
// The products of a tile's scores are on their way while the values of the tile before are multiplied, and the weights are
// computed while these still are. Where several groups share a block they issue their products in turn, so that one multiplies
// while another computes weights. Where Shared, the groups have the same 64 rows, each every Groups-th tile of keys, and the first adds
// up what they found.
//
// In shared memory all tensors are chunks of 64 columns, 128 bytes a row, or of 32 and 64, whose 16-byte vectors are swizzled;
// columns beyond a depth and rows beyond a length are zeros, which the copies write:
//
//   rows      (groups, chunks, 64 rows, line)          of q; at the end, or behind them, of y, which is stored from there
//   stages    (stages) of keys (chunks, Keys, line) and values (chunks, Keys, line)
//   barriers
//   parts     (Groups - 1) of (columns / 2 + 4, 128) floats, where Shared: O, maxima and sums of the other groups' threads
//
// Sums lie as wgmma leaves them: s[4 c + 2 r + e] of a lane is row 16 (warp % 4) + lane / 4 + 8 r of the group, and column
// 8 c + 2 (lane % 4) + e.
//
// Where Persistent, a block goes over several blocks' rows, and the copies of the next begin while these are finished.
//
// Launch: pairs x row tiles blocks of block_threads, or as many as run at once where Persistent; shared_bytes of dynamic shared
// memory.
#pragma once

#include "attention/hopper_blocks.cuh"
#include "attention/hopper_copies.cuh"
#include "attention/scores.cuh"
#include "attention/weights.cuh"
#include "common/dependent_launch.cuh"
#include "common/ptx/barriers.cuh"
#include "common/ptx/copies.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/warp.cuh"
#include "gemm/hopper_operand.cuh"
#include "kernels/attention/hopper.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class T, HopperAttentionConfig C> struct HopperAttention {
  static constexpr int groups = C.groups, keys = C.keys, stages = C.stages, registers = C.registers;
  static constexpr bool shared_rows = C.shared_rows, in_turn = groups > 1 && !shared_rows;
  static constexpr int row_groups = shared_rows ? 1 : groups, key_groups = shared_rows ? groups : 1;
  static_assert(!shared_rows || !C.persistent);
  static constexpr int group_rows = hopper_attention_rows, chunk_columns = C.columns, line = 2 * chunk_columns;
  static constexpr int rows = group_rows * row_groups, threads = 128 * groups;  // threads: that have sums
  static constexpr int block_threads = threads + (registers ? 128 : 32);    // setmaxnreg takes four warps
  static constexpr int steps = (C.depth + 15) / 16;                         // of 16 along the depth
  // Of O: what an instruction has of all widths from the depth on.
  static constexpr int columns = C.value_depth <= 80 || C.value_depth % 16 == 0 ? C.value_depth : C.value_depth + 8;
  static constexpr int depth_chunks = (C.depth + chunk_columns - 1) / chunk_columns;
  static constexpr int value_chunks = (C.value_depth + chunk_columns - 1) / chunk_columns;
  static constexpr int row_chunk = group_rows * line, key_chunk = keys * line;
  // Results lie where the queries did; where the next ones may be on their way, behind them.
  static constexpr bool persistent = C.persistent;
  static constexpr int query_bytes = depth_chunks * row_chunk, results_at = persistent ? query_bytes : 0;
  static constexpr int most_chunks = depth_chunks > value_chunks ? depth_chunks : value_chunks;
  static constexpr int group_bytes = (persistent ? depth_chunks + value_chunks : most_chunks) * row_chunk;
  static constexpr int key_bytes = depth_chunks * key_chunk, value_bytes = value_chunks * key_chunk;
  static constexpr int stage_bytes = key_bytes + value_bytes, stages_at = row_groups * group_bytes;
  static constexpr int barriers = stages_at + stages * stage_bytes;
  static constexpr int parts_at = barriers + (16 * groups + 32 * stages + 127) / 128 * 128;
  static constexpr int part_bytes = (columns / 2 + 4) * 128 * 4;
  static constexpr int shared_bytes = 1024 + parts_at + (key_groups - 1) * part_bytes;
  static_assert(C.depth % 8 == 0 && C.value_depth % 8 == 0 && keys % 16 == 0 && keys <= 256 && groups <= 3);
  static_assert(chunk_columns == 64 || chunk_columns == 32);

  float s[keys / 2];                                                        // (64, Keys)
  float o[columns / 2];                                                     // (64, columns)
  u32 p[keys / 16][4];                                                      // (64, 16) each
  float top[2], total[2];                                                   // (2) rows

  static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
  static __device__ __forceinline__ int group() { return threadIdx.x / 128; }
  /// A lane's first row and column.
  static __device__ __forceinline__ u32 row_of_group() { return threadIdx.x / 32 % 4 * 16 + lane() / 4; }
  static __device__ __forceinline__ u32 column() { return 2 * (lane() % 4); }

  static __device__ __forceinline__ u32 rows_of(u32 memory, int group) { return memory + group * group_bytes; }
  static __device__ __forceinline__ u32 keys_of(u32 memory, int stage) { return memory + stages_at + stage * stage_bytes; }
  static __device__ __forceinline__ u32 values_of(u32 memory, int stage) { return keys_of(memory, stage) + key_bytes; }
  static __device__ __forceinline__ u32 keys_full(u32 memory, int stage) { return memory + barriers + stage * 32; }
  static __device__ __forceinline__ u32 keys_empty(u32 memory, int stage) { return keys_full(memory, stage) + 8; }
  static __device__ __forceinline__ u32 values_full(u32 memory, int stage) { return keys_full(memory, stage) + 16; }
  static __device__ __forceinline__ u32 values_empty(u32 memory, int stage) { return keys_full(memory, stage) + 24; }
  static __device__ __forceinline__ u32 rows_full(u32 memory, int group) { return keys_full(memory, stages) + group * 16; }
  static __device__ __forceinline__ u32 rows_empty(u32 memory, int group) { return rows_full(memory, group) + 8; }

  static __device__ __forceinline__ void initialize(u32 memory) {
#pragma unroll
    for (int n = 0; n < stages; ++n) {
      ptx::mbarrier_init(keys_full(memory, n), 1), ptx::mbarrier_init(keys_empty(memory, n), 4 * row_groups);
      ptx::mbarrier_init(values_full(memory, n), 1), ptx::mbarrier_init(values_empty(memory, n), 4 * row_groups);
    }
#pragma unroll
    for (int g = 0; g < row_groups; ++g) ptx::mbarrier_init(rows_full(memory, g), 1), ptx::mbarrier_init(rows_empty(memory, g), 4);
    ptx::fence_mbarrier_init();
  }
  /// To the group's next tile.
  static __device__ __forceinline__ void go_on(RingPlace& at) {
    if constexpr (key_groups == 1) at.advance<stages>();
    else at.advance_by<stages>(key_groups);
  }
  /// The warp is done with what `empty` is of.
  static __device__ __forceinline__ void release(u32 empty) {
    if (lane() == 0) ptx::mbarrier_arrive(empty);
  }
  static __device__ __forceinline__ void synchronize_group() { ptx::bar_sync(1 + group(), 128); }
  /// Groups issue products one after the other.
  static __device__ __forceinline__ void wait_for_turn() {
    if constexpr (in_turn) ptx::bar_sync(1 + groups + group(), 256);
  }
  static __device__ __forceinline__ void pass_turn() {
    if constexpr (in_turn) ptx::bar_arrive(1 + groups + (group() + 1) % groups, 256);
  }

  template <int Adds> static __device__ __forceinline__ void multiply(float (&sums)[keys / 2], u64 left, u64 right) {
    if constexpr (IsBf16<T>::value) ptx::wgmma_bf16<0, 0, Adds>(sums, left, right);
    else ptx::wgmma_f16<0, 0, Adds>(sums, left, right);
  }

  /// S = Q Kt, on its way.
  __device__ __forceinline__ void issue_scores(u64 queries, u32 keys_at) {
    constexpr int in_chunk = chunk_columns / 16;                            // steps
    const u64 right = swizzled_matrix<line>(keys_at);
    multiply<0>(s, queries, right);
#pragma unroll
    for (int step = 1; step < steps; ++step)
      multiply<1>(s, queries + step / in_chunk * (row_chunk >> 4) + step % in_chunk * 2,
                  right + step / in_chunk * (key_chunk >> 4) + step % in_chunk * 2);
    ptx::wgmma_commit_group();
  }
  /// O += P V, on its way.
  __device__ __forceinline__ void issue_values(u32 values_at) {
    const u64 right = swizzled_matrix<line>(values_at, key_chunk);
#pragma unroll
    for (int step = 0; step < keys / 16; ++step) {
      const u64 here = right + step * (16 * line >> 4);
      if constexpr (IsBf16<T>::value) ptx::wgmma_bf16_of_registers(o, p[step], here);
      else ptx::wgmma_f16_of_registers(o, p[step], here);
    }
    ptx::wgmma_commit_group();
  }
  __device__ __forceinline__ void keep_scores() {
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) ptx::keep_order(s[i]);
  }
  __device__ __forceinline__ void keep_values() {
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) ptx::keep_order(o[i]);
#pragma unroll
    for (int i = 0; i < keys / 4; ++i) ptx::keep_order(p[i / 4][i % 4]);
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) o[i] = 0;
#pragma unroll
    for (int r = 0; r < 2; ++r) top[r] = minus_infinity, total[r] = 0;
  }

  /// Hides the scores of row r from the tile's key `seen[r]` on.
  __device__ __forceinline__ void hide(const i32 (&seen)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const i32 mine = seen[r] - static_cast<i32>(column());
#pragma unroll
      for (int c = 0; c < keys / 8; ++c)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (8 * c + e >= mine) s[4 * c + 2 * r + e] = minus_infinity;
    }
  }

  /// Replaces S by exp(scale S - max); `faded`: what O is to be scaled by. Low as Flash::soften has it (attention/flash.cuh).
  template <bool Low> __device__ __forceinline__ void soften(float scale, float factor, float (&faded)[2]) {
    using namespace smelt_flash;
    float highest[2][4];                                                     // (4) of a row: short chains
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) highest[r][i] = s[i / 2 * 4 + 2 * r + i % 2];
#pragma unroll
    for (int c = 2; c < keys / 8; ++c)
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int e = 0; e < 2; ++e) highest[r][c % 2 * 2 + e] = fmaxf(highest[r][c % 2 * 2 + e], s[4 * c + 2 * r + e]);
    float base[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = fmaxf(fmaxf(highest[r][0], highest[r][1]), fmaxf(highest[r][2], highest[r][3]));
      most = fold_quad(most, [](float a, float b) { return fmaxf(a, b); });
      most = fmaxf(top[r], Low ? most : most * scale);
      faded[r] = faded_by(top[r], most);
      top[r] = most;
      base[r] = most == minus_infinity ? 0.f : Low ? most : most * log2e;    // nothing visible: exp2(-inf) is 0
    }
    float part[2][2] = {};                                                   // (2) of even and odd columns
#pragma unroll
    for (int c = 0; c < keys / 8; ++c)
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[4 * c + 2 * r + e];
          x = exp2_of(Low ? (x - base[r]) * log2e : x * factor - base[r]);
          part[r][e] += x;
        }
#pragma unroll
    for (int r = 0; r < 2; ++r) total[r] = total[r] * faded[r] + (part[r][0] + part[r][1]);   // of this lane's columns
  }

  __device__ __forceinline__ void fade(const float (&faded)[2]) {
    // After the first tiles a new maximum is rare.
    if (__any_sync(full_warp, faded[0] != 1 || faded[1] != 1)) {
#pragma unroll
      for (int i = 0; i < columns / 2; ++i) o[i] *= faded[i / 2 % 2];
    }
  }
  /// P, of the type, from S.
  __device__ __forceinline__ void round_weights() {
#pragma unroll
    for (int step = 0; step < keys / 16; ++step)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        p[step][e] = smelt_flash::rounded_pair<T>(s[8 * step + 2 * e], s[8 * step + 2 * e + 1]);
  }

  /// Of groups that share rows: the others leave what they found to the first, which adds it up; whether this is the first. Lanes of the
  /// same place have the same rows and columns in all groups.
  __device__ __forceinline__ bool add_up(u32 memory) {
    const int thread = threadIdx.x % 128;
    const auto at = [&](int group, int i) { return memory + parts_at + (group - 1) * part_bytes + (i * 128 + thread) * 4; };
    if (group() > 0) {
#pragma unroll
      for (int i = 0; i < columns / 2; ++i) ptx::st_shared_u32(at(group(), i), __float_as_uint(o[i]));
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        ptx::st_shared_u32(at(group(), columns / 2 + r), __float_as_uint(top[r]));
        ptx::st_shared_u32(at(group(), columns / 2 + 2 + r), __float_as_uint(total[r]));
      }
      ptx::bar_arrive(1 + groups, threads);
      return false;
    }
    ptx::bar_sync(1 + groups, threads);
#pragma unroll 1
    for (int g = 1; g < groups; ++g) {
      float mine[2], theirs[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float their_top = ptx::ld_shared_f32(at(g, columns / 2 + r)), most = fmaxf(top[r], their_top);
        mine[r] = smelt_flash::faded_by(top[r], most), theirs[r] = smelt_flash::faded_by(their_top, most);
        top[r] = most;
        total[r] = total[r] * mine[r] + ptx::ld_shared_f32(at(g, columns / 2 + 2 + r)) * theirs[r];
      }
#pragma unroll
      for (int i = 0; i < columns / 2; ++i) o[i] = o[i] * mine[i / 2 % 2] + ptx::ld_shared_f32(at(g, i)) * theirs[i / 2 % 2];
    }
    return true;
  }

  /// Divides O by the sums, and writes it to the group's rows of shared memory.
  __device__ __forceinline__ void write(u32 to, bool nan_guard) {
    float part[2];
    bool zero[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = sum_quad(total[r]);
      zero[r] = !(sum > 0) && nan_guard;                                     // no key is visible, or a score is NaN
      part[r] = 1 / sum;
    }
#pragma unroll
    for (int c = 0; c < columns / 8; ++c)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float x = zero[r] ? 0.f : o[4 * c + 2 * r] * part[r], y = zero[r] ? 0.f : o[4 * c + 2 * r + 1] * part[r];
        constexpr int in_chunk = chunk_columns / 8;
        const u32 at = to + c / in_chunk * row_chunk +
                       hopper_attention_result<chunk_columns>(threadIdx.x / 32 % 4, lane(), r, c % in_chunk);
        ptx::st_shared_u32(at, smelt_flash::rounded_pair<T>(x, y));
      }
  }
};

/// The end of a group's rows: they are divided by their sums, and stored.
template <class A, MaskKind Mask>
__device__ __forceinline__ void finish_attention(const HopperAttentionArgs& a, A& f, const HopperAttentionPlace<A, Mask>& block,
                                                 u32 memory, u32 group) {
  if constexpr (A::shared_rows)
    if (!f.add_up(memory)) return;
  if (A::persistent && threadIdx.x % 128 == 0) ptx::cp_async_bulk_wait_group_read<0>();   // the block before has been stored
  A::synchronize_group();                                                    // all are done with the group's rows of q
  const u32 rows = A::rows_of(memory, group) + A::results_at;
  f.write(rows, a.nan_guard);
  ptx::fence_proxy_async();
  A::synchronize_group();
  if (threadIdx.x % 128 == 0) {
#pragma unroll
    for (int c = 0; c < A::value_chunks; ++c)
      ptx::cp_async_bulk_tensor_4d_store(&a.y, c * A::chunk_columns, block.first_row + group * A::group_rows, block.head,
                                         block.batch, rows + c * A::row_chunk);
    ptx::cp_async_bulk_commit_group();
  }
}

/// The threads that have sums.
template <class A, MaskKind Mask, class Scores>
__device__ __forceinline__ void attend(const HopperAttentionArgs& a, A& f, Scores scores,
                                       const HopperAttentionPlace<A, Mask>& block, u32 memory, RingPlace& at, u32 phase) {
  constexpr int keys = A::keys;
  constexpr u32 step = A::key_groups;
  const u32 group = A::shared_rows ? 0 : A::group(), first = A::shared_rows ? A::group() : 0;   // of row groups; first tile
  const u32 row = block.first_row + group * A::group_rows + A::row_of_group();                  // this lane's first
  if constexpr (Mask == MaskKind::program) scores.seek(block.batch, block.head);
  // Makes weights of the scores of the tile that begins at a key; O is not touched.
  const auto weigh = [&](u32 key, float(&faded)[2]) {
    const bool beyond = key + keys > a.keys;
    if constexpr (Mask == MaskKind::program) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const u32 i = row + 8 * r < a.queries ? row + 8 * r : a.queries - 1;
#pragma unroll
        for (int c = 0; c < keys / 8; ++c) f.s[4 * c + 2 * r] *= a.scale, f.s[4 * c + 2 * r + 1] *= a.scale;
        if (!beyond) {
          const typename Scores::Near near = scores.near(i, key + A::column());
#pragma unroll
          for (int c = 0; c < keys / 8; ++c)
            Scores::apply(scores.two(near, 8 * c), f.s[4 * c + 2 * r], f.s[4 * c + 2 * r + 1]);
        } else {
#pragma unroll
          for (int c = 0; c < keys / 8; ++c) {
            const u32 j = key + A::column() + 8 * c, safe = j < a.keys ? j : 0;          // what is beyond is hidden below
            Scores::apply(scores.two_of(i, safe, j + 1 < a.keys ? j + 1 : safe), f.s[4 * c + 2 * r], f.s[4 * c + 2 * r + 1]);
          }
        }
      }
    }
    const u32 first_of_group = block.first_row + group * A::group_rows;
    const bool diagonal = Mask == MaskKind::causal && static_cast<i64>(key) + keys - 1 > static_cast<i64>(first_of_group) + a.offset;
    if (beyond || diagonal) {
      i32 seen[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        i64 of_row = static_cast<i64>(a.keys) - key;
        if constexpr (Mask == MaskKind::causal) {
          const i64 sees = static_cast<i64>(row) + 8 * r + a.offset + 1 - key;
          of_row = sees < of_row ? sees : of_row;
        }
        seen[r] = of_row < 0 ? 0 : of_row > keys ? keys : static_cast<i32>(of_row);
      }
      f.hide(seen);
    }
    if constexpr (Mask == MaskKind::program) f.template soften<true>(1, smelt_flash::log2e, faded);
    else f.template soften<false>(a.scale, a.factor, faded);
  };

  f.clear();
  const u64 queries = swizzled_matrix<A::line>(A::rows_of(memory, group));
  float faded[2];
  RingPlace before;                                                          // of the tile before, whose values are due
  if (A::shared_rows && first >= block.tiles) return finish_attention<A, Mask>(a, f, block, memory, group);
  wait_for_phase(A::rows_full(memory, group), phase);
  wait_for_phase(A::keys_full(memory, at.stage), at.phase);
  ptx::wgmma_fence();
  f.issue_scores(queries, A::keys_of(memory, at.stage));
  ptx::wgmma_wait_group<0>();
  f.keep_scores();
  A::release(A::keys_empty(memory, at.stage));
  if (A::persistent && block.tiles == 1) A::release(A::rows_empty(memory, group));
  before = at, A::go_on(at);
  weigh(first * keys, faded);
  f.round_weights();
#pragma unroll 1
  for (u32 n = first + step; n < block.tiles; n += step) {
    wait_for_phase(A::keys_full(memory, at.stage), at.phase);
    A::wait_for_turn();
    ptx::wgmma_fence();
    f.issue_scores(queries, A::keys_of(memory, at.stage));
    wait_for_phase(A::values_full(memory, before.stage), before.phase);
    f.issue_values(A::values_of(memory, before.stage));
    A::pass_turn();
    ptx::wgmma_wait_group<1>();
    f.keep_scores();
    A::release(A::keys_empty(memory, at.stage));
    if (A::persistent && n + 1 == block.tiles) A::release(A::rows_empty(memory, group));
    weigh(n * keys, faded);
    ptx::compute_first(f.total[0] + f.total[1]);
    ptx::wgmma_wait_group<0>();
    f.keep_values();
    A::release(A::values_empty(memory, before.stage));
    f.fade(faded);
    f.round_weights();
    before = at, A::go_on(at);
  }
  wait_for_phase(A::values_full(memory, before.stage), before.phase);
  ptx::wgmma_fence();
  f.issue_values(A::values_of(memory, before.stage));
  ptx::wgmma_wait_group<0>();
  f.keep_values();
  if constexpr (A::persistent) A::release(A::values_empty(memory, before.stage));
  finish_attention<A, Mask>(a, f, block, memory, group);
}

/// All of a block's rows, or of several.
template <class A, MaskKind Mask, class Scores>
__device__ __forceinline__ void attend_blocks(const HopperAttentionArgs& a, const Scores& scores, u32 memory) {
  A f;
  RingPlace at;
  u32 phase = 0;
  if constexpr (A::shared_rows) at.template advance_by<A::stages>(A::group());
  if constexpr (A::in_turn)
    if (A::group() == A::groups - 1) A::pass_turn();
#pragma unroll 1
  for (u32 i = blockIdx.x; i < a.blocks; i += gridDim.x, phase ^= 1) {
    const HopperAttentionPlace<A, Mask> block(a, i);
    attend<A, Mask>(a, f, scores, block, memory, at, phase);
    if constexpr (!A::persistent) break;
  }
  if (threadIdx.x % 128 == 0) ptx::cp_async_bulk_wait_group_read<0>();
}

template <class A, MaskKind Mask, class Scores, int Operands>
__device__ __forceinline__ void hopper_attention_block(const WithScores<HopperAttentionArgs, Operands>& args) {
  extern __shared__ __align__(128) u8 shared[];
  const HopperAttentionArgs& a = args.args;
  const u32 memory = (shared_address(shared) + 1023) / 1024 * 1024;
  const bool copies = threadIdx.x == A::threads, multiplies = threadIdx.x < A::threads;
  if (copies) {
    ptx::prefetch_tensormap(&a.q), ptx::prefetch_tensormap(&a.k), ptx::prefetch_tensormap(&a.v), ptx::prefetch_tensormap(&a.y);
    A::initialize(memory);
  }
  __syncthreads();
  wait_for_kernels_before();
  if (!multiplies) {
    if constexpr (A::registers) ptx::setmaxnreg_dec<24>();
    if (copies) copy_tiles<A, Mask>(a, memory);
  } else {
    if constexpr (A::registers) ptx::setmaxnreg_inc<A::registers>();
    attend_blocks<A, Mask>(a, Scores(args.operands), memory);
  }
}

#endif
