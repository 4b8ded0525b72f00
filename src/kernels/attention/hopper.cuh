// Attention by tiles on Hopper's own instructions: Shah et al., "FlashAttention-3", arXiv:2407.08608.
//
//   q, k, v, y    as attention/problem.cuh says, f16 or bf16, by tensor maps of [batch, heads, rows, columns]
//
// A block has 64 rows of queries for each of its Groups groups of four warps, and one warp more that has tiles of Keys keys and
// values brought (TMA) into a ring of Stages. A group goes over the tiles: S = Q Kt by wgmma from shared memory, the softmax's
// running maximum and sum in registers, O += P V with P in registers: the sums of a product lie as the left operand of the next.
// The products of a tile's scores are on their way while the values of the tile before are multiplied, and the weights are
// computed while these still are. Where several groups share a block they issue their products in turn, so that one multiplies
// while another computes weights.
//
// In shared memory all tensors are chunks of 64 columns, 128 bytes a row, whose 16-byte vectors are swizzled; columns beyond a
// depth and rows beyond a length are zeros, which the copies write:
//
//   rows      (groups, chunks, 64 rows, 128 bytes)     of q; at the end, or behind them, of y, which is stored from there
//   stages    (stages) of keys (chunks, Keys, 128 bytes) and values (chunks, Keys, 128 bytes)
//   barriers
//
// Sums lie as wgmma leaves them: s[4 c + 2 r + e] of a lane is row 16 (warp % 4) + lane / 4 + 8 r of the group, and column
// 8 c + 2 (lane % 4) + e.
//
// Where Persistent, a block goes over several blocks' rows, and the copies of the next begin while these are finished.
//
// Launch: pairs x row tiles blocks of block_threads, or as many as run at once where Persistent; shared_bytes of dynamic shared
// memory.
#pragma once

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
  static constexpr int group_rows = hopper_attention_rows, chunk_columns = hopper_attention_columns, line = 128;
  static constexpr int rows = group_rows * groups, threads = 128 * groups;  // threads: that have sums
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
  static constexpr int stage_bytes = key_bytes + value_bytes, stages_at = groups * group_bytes;
  static constexpr int barriers = stages_at + stages * stage_bytes;
  static constexpr int shared_bytes = 1024 + barriers + (16 * groups + 32 * stages + 127) / 128 * 128;
  static_assert(C.depth % 8 == 0 && C.value_depth % 8 == 0 && keys % 16 == 0 && keys <= 256 && groups <= 3);

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
      ptx::mbarrier_init(keys_full(memory, n), 1), ptx::mbarrier_init(keys_empty(memory, n), 4 * groups);
      ptx::mbarrier_init(values_full(memory, n), 1), ptx::mbarrier_init(values_empty(memory, n), 4 * groups);
    }
#pragma unroll
    for (int g = 0; g < groups; ++g) ptx::mbarrier_init(rows_full(memory, g), 1), ptx::mbarrier_init(rows_empty(memory, g), 4);
    ptx::fence_mbarrier_init();
  }
  /// The warp is done with what `empty` is of.
  static __device__ __forceinline__ void release(u32 empty) {
    if (lane() == 0) ptx::mbarrier_arrive(empty);
  }
  static __device__ __forceinline__ void synchronize_group() { ptx::bar_sync(1 + group(), 128); }
  /// Groups issue products one after the other.
  static __device__ __forceinline__ void wait_for_turn() {
    if constexpr (groups > 1) ptx::bar_sync(1 + groups + group(), 256);
  }
  static __device__ __forceinline__ void pass_turn() {
    if constexpr (groups > 1) ptx::bar_arrive(1 + groups + (group() + 1) % groups, 256);
  }

  template <int Adds> static __device__ __forceinline__ void multiply(float (&sums)[keys / 2], u64 left, u64 right) {
    if constexpr (IsBf16<T>::value) ptx::wgmma_bf16<0, 0, Adds>(sums, left, right);
    else ptx::wgmma_f16<0, 0, Adds>(sums, left, right);
  }

  /// S = Q Kt, on its way.
  __device__ __forceinline__ void issue_scores(u64 queries, u32 keys_at) {
    const u64 right = swizzled_matrix(keys_at);
    multiply<0>(s, queries, right);
#pragma unroll
    for (int step = 1; step < steps; ++step)
      multiply<1>(s, queries + step / 4 * (row_chunk >> 4) + step % 4 * 2, right + step / 4 * (key_chunk >> 4) + step % 4 * 2);
    ptx::wgmma_commit_group();
  }
  /// O += P V, on its way.
  __device__ __forceinline__ void issue_values(u32 values_at) {
    const u64 right = swizzled_matrix(values_at, key_chunk);
#pragma unroll
    for (int step = 0; step < keys / 16; ++step) {
      if constexpr (IsBf16<T>::value) ptx::wgmma_bf16_of_registers(o, p[step], right + step * (16 * line >> 4));
      else ptx::wgmma_f16_of_registers(o, p[step], right + step * (16 * line >> 4));
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
    float sums[2][2] = {};                                                   // (2) of even and odd columns
#pragma unroll
    for (int c = 0; c < keys / 8; ++c)
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[4 * c + 2 * r + e];
          x = exp2_of(Low ? (x - base[r]) * log2e : x * factor - base[r]);
          sums[r][e] += x;
        }
#pragma unroll
    for (int r = 0; r < 2; ++r) total[r] = total[r] * faded[r] + (sums[r][0] + sums[r][1]);   // of this lane's columns
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
        const u32 at = to + c / 8 * row_chunk + hopper_attention_result(threadIdx.x / 32 % 4, lane(), r, c % 8);
        ptx::st_shared_u32(at, smelt_flash::rounded_pair<T>(x, y));
      }
  }
};

/// A block's rows, and the tiles of keys that they see.
template <class A, MaskKind Mask> struct HopperAttentionPlace {
  u32 first_row, batch, head, tiles;
  __device__ __forceinline__ HopperAttentionPlace(const HopperAttentionArgs& a, u32 at) {
    // With a causal mask, the rows that see the most keys come first, since they take longest.
    constexpr bool descending = Mask == MaskKind::causal;
    const u32 row_tile = descending ? a.row_tiles - 1 - at / a.pairs : at % a.row_tiles;
    const u32 pair = descending ? at % a.pairs : at / a.row_tiles;
    batch = pair / a.heads, head = pair - batch * a.heads;
    first_row = row_tile * A::rows;
    u32 end = a.keys;
    if constexpr (Mask == MaskKind::causal) {
      const u32 last = (first_row + A::rows < a.queries ? first_row + A::rows : a.queries) - 1;
      const i64 seen = static_cast<i64>(last) + a.offset + 1;
      end = seen < 1 ? 1 : seen < end ? static_cast<u32>(seen) : end;       // rows that see nothing have a tile that is hidden
    }
    tiles = (end + A::keys - 1) / A::keys;
  }
};

/// The copying thread.
template <class A, MaskKind Mask> __device__ __forceinline__ void copy_tiles(const HopperAttentionArgs& a, u32 memory) {
  constexpr int chunk = A::chunk_columns;
  RingPlace place;
  u32 phase = 1;                                                             // of the rows that are to be free
#pragma unroll 1
  for (u32 at = blockIdx.x; at < a.blocks; at += gridDim.x, phase ^= 1) {
    const HopperAttentionPlace<A, Mask> block(a, at);
    const i32 b = block.batch, h = block.head, kv = h / a.group;
#pragma unroll 1
    for (u32 n = 0; n < block.tiles; ++n) {
      const i32 key = n * A::keys;
      if (n == 0) {
#pragma unroll
        for (int g = 0; g < A::groups; ++g) {
          wait_for_phase(A::rows_empty(memory, g), phase);
          ptx::mbarrier_arrive_expect_tx(A::rows_full(memory, g), A::query_bytes);
#pragma unroll
          for (int c = 0; c < A::depth_chunks; ++c)
            ptx::cp_async_bulk_tensor_4d(A::rows_of(memory, g) + c * A::row_chunk, &a.q, c * chunk,
                                         block.first_row + g * A::group_rows, h, b, A::rows_full(memory, g));
        }
      }
      wait_for_phase(A::keys_empty(memory, place.stage), place.phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(A::keys_full(memory, place.stage), A::key_bytes);
#pragma unroll
      for (int c = 0; c < A::depth_chunks; ++c)
        ptx::cp_async_bulk_tensor_4d(A::keys_of(memory, place.stage) + c * A::key_chunk, &a.k, c * chunk, key, kv, b,
                                     A::keys_full(memory, place.stage));
      wait_for_phase(A::values_empty(memory, place.stage), place.phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(A::values_full(memory, place.stage), A::value_bytes);
#pragma unroll
      for (int c = 0; c < A::value_chunks; ++c)
        ptx::cp_async_bulk_tensor_4d(A::values_of(memory, place.stage) + c * A::key_chunk, &a.v, c * chunk, key, kv, b,
                                     A::values_full(memory, place.stage));
      place.advance<A::stages>();
    }
    if constexpr (!A::persistent) break;
  }
}

/// The threads that have sums.
template <class A, MaskKind Mask, class Scores>
__device__ __forceinline__ void attend(const HopperAttentionArgs& a, A& f, Scores scores,
                                       const HopperAttentionPlace<A, Mask>& block, u32 memory, RingPlace& at, RingPlace& before,
                                       u32 phase) {
  constexpr int keys = A::keys;
  const u32 group = A::group(), row = block.first_row + group * A::group_rows + A::row_of_group();   // this lane's first
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
  const u64 queries = swizzled_matrix(A::rows_of(memory, group));
  float faded[2];
  wait_for_phase(A::rows_full(memory, group), phase);
  wait_for_phase(A::keys_full(memory, at.stage), at.phase);
  ptx::wgmma_fence();
  f.issue_scores(queries, A::keys_of(memory, at.stage));
  ptx::wgmma_wait_group<0>();
  f.keep_scores();
  A::release(A::keys_empty(memory, at.stage));
  if (A::persistent && block.tiles == 1) A::release(A::rows_empty(memory, group));
  at.template advance<A::stages>();
  weigh(0, faded);
  f.round_weights();
#pragma unroll 1
  for (u32 n = 1; n < block.tiles; ++n) {
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
    at.template advance<A::stages>(), before.template advance<A::stages>();
  }
  wait_for_phase(A::values_full(memory, before.stage), before.phase);
  ptx::wgmma_fence();
  f.issue_values(A::values_of(memory, before.stage));
  ptx::wgmma_wait_group<0>();
  f.keep_values();
  if constexpr (A::persistent) A::release(A::values_empty(memory, before.stage));
  before.template advance<A::stages>();

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

/// All of a block's rows, or of several.
template <class A, MaskKind Mask, class Scores>
__device__ __forceinline__ void attend_blocks(const HopperAttentionArgs& a, const Scores& scores, u32 memory) {
  A f;
  RingPlace at, before;                                                      // before: of the tile before, whose values are due
  u32 phase = 0;
  if constexpr (A::groups > 1)
    if (A::group() == A::groups - 1) A::pass_turn();
#pragma unroll 1
  for (u32 i = blockIdx.x; i < a.blocks; i += gridDim.x, phase ^= 1) {
    const HopperAttentionPlace<A, Mask> block(a, i);
    attend<A, Mask>(a, f, scores, block, memory, at, before, phase);
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
