// A tile of a product by Hopper's own instructions: groups of four warps multiply what lies in shared memory (wgmma), where one
// warp more has it brought by tensor maps (TMA).
//
//   sums (M, N) += a (M, line) · b (line, N)
//
// A line is 128 bytes of K: 64 steps of 16 bits; along K alone 32 of floats, which the tensor map has rounded to tf32, and 128 of
// 8-bit integers, whose sums are of 32 bits, or of 8-bit floats (e4m3). These wgmma adds with some 14 bits: each stage is summed
// apart, and added in f32. Of integers a line may be of 64 bytes, so that 64 channels of an image leave none of it empty.
//
// The left operand fills the instruction's side of 64 rows, the right one its columns. a is the left one; with swap b is, so
// that few rows of a do not leave the 64 rows empty, and the sums are those of the transposed product. The groups share a tile,
// or each has its own where they alternate.
//
//   left   (64 · rows · sharing, line)   each sharing group has its 64 · rows lines
//   right  (line, columns)               of all of them
//
// Sums lie as wgmma leaves them: d[i][4 j + 2 h + e] of a lane is line 64 i + 16 (warp % 4) + 8 h + lane / 4 of the group's left
// lines, and column 8 j + 2 (lane % 4) + e of right.
#pragma once

#include "common/cluster.cuh"
#include "common/ptx/barriers.cuh"
#include "common/ptx/wgmma.cuh"
#include "gemm/hopper_moments.cuh"
#include "gemm/hopper_operand.cuh"
#include "gemm/hopper_sums.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Which row of y a row of the tiles is: the same.
struct SameRows {
  __device__ __forceinline__ u32 row_of_y(u32 row) const { return row; }
};

template <class TA, HopperTileConfig C, class TB = TA> struct HopperTile {
  using A = TA;
  using B = TB;
  using Rows = SameRows;
  using Sum = typename HopperSums<TA>::Type;
  static constexpr bool stages_apart = IsE4m3<TA>::value;                   // each is summed for itself first
  static constexpr bool integers = sizeof(TA) == 1 && !stages_apart;
  static constexpr HopperNorm norm = C.norm;
  static_assert(norm == HopperNorm::none || (!C.swap && C.a_k_major && sizeof(TA) == 2));
  static constexpr bool swap = C.swap, alternate = C.alternate, b_packed = C.b_packed;
  static constexpr int line = C.line;
  static_assert(line == 128 || (line == 64 && integers && C.a_k_major && C.b_k_major && !C.b_packed));
  static constexpr int tile_m = C.m, tile_n = C.n, tile_k = line / sizeof(TA), stages = C.stages, groups = C.groups;
  static constexpr int sharing = alternate ? 1 : groups;                    // groups of one tile
  static constexpr int registers = C.registers, threads = 128 * groups;     // threads: that have sums
  static constexpr int block_threads = threads + (registers ? 128 : 32);    // setmaxnreg takes four warps
  using Patch = BlockPatch<C.across, C.down>;
  static constexpr int across = C.across, down = C.down;
  static constexpr bool shares = Patch::blocks > 1;                         // with other blocks what its copies bring
  using OperandA = HopperOperand<tile_m, C.a_k_major, across, line>;
  using OperandB = HopperOperand<tile_n, C.b_k_major, down, line>;
  static constexpr int a_bytes = OperandA::bytes, stage_bytes = a_bytes + OperandB::bytes;
  static constexpr int rows = (swap ? tile_n : tile_m) / (64 * sharing), columns = swap ? tile_m : tile_n;
  static_assert(rows * 64 * sharing == (swap ? tile_n : tile_m) && columns % 8 == 0 && columns <= 256 && groups <= 3);
  static_assert(!b_packed || C.down == 1);
  static_assert(stage_bytes % (8 * line) == 0 || stages == 1, "stages begin at multiples of 8 lines, as swizzles repeat themselves");
  // Behind the stages: full and empty of each stage, whose turn it is to multiply, and whether other blocks' sums have come.
  static constexpr int barriers = stages * stage_bytes, ring_bytes = barriers + (16 * stages + 8 * groups + 8 + 127) / 128 * 128;
  // By fours, sums go through shared memory 8 rows of a warp at a time, of so many columns; with swap 8 columns of 16 rows.
  static constexpr int part = columns % 64 == 0 ? 64 : columns % 32 == 0 ? 32 : columns % 16 == 0 ? 16 : 8;
  static constexpr int exchange_row = swap ? 20 : part + 8, exchange_bytes = 8 * exchange_row * 4;   // of a warp

  Sum d[rows][columns / 2];                                                 // (rows) of (64, columns); none before multiply()
  HopperMoments<TA, rows, norm> moments;                                    // of the lines of left

  static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
  static __device__ __forceinline__ int group() { return threadIdx.x / 128; }
  static __device__ __forceinline__ int group_of_tile() { return alternate ? 0 : group(); }
  static __device__ __forceinline__ u32 full(u32 ring, int stage) { return ring + barriers + stage * 16; }
  static __device__ __forceinline__ u32 empty(u32 ring, int stage) { return full(ring, stage) + 8; }
  static __device__ __forceinline__ u32 turn(u32 ring, int group) { return ring + barriers + stages * 16 + group * 8; }
  static __device__ __forceinline__ u32 received(u32 ring) { return turn(ring, groups); }
  /// All threads that have sums.
  static __device__ __forceinline__ void synchronize() { ptx::bar_sync(1, threads); }
  /// The threads that have sums wait for the warp that copies to have initialised the ring.
  static __device__ __forceinline__ void begin() { ptx::bar_sync(2 + groups, threads + 32); }
  static __device__ __forceinline__ void let_begin() { ptx::bar_arrive(2 + groups, threads + 32); }
  /// This thread's group.
  static __device__ __forceinline__ void synchronize_group() { ptx::bar_sync(2 + group(), 128); }

  /// sums += left · right, or where not `adds`, for sums that are none yet, sums = left · right.
  template <int Count> static __device__ __forceinline__ void product(Sum (&sums)[Count], u64 left, u64 right, u32 adds) {
    if constexpr (integers) {
      static_assert(C.a_k_major && C.b_k_major && HopperSums<TB>::has_sign);
      if constexpr (HopperSums<TA>::has_sign) ptx::wgmma_s8_s8(sums, left, right, adds);
      else if constexpr (swap) ptx::wgmma_s8_u8(sums, left, right, adds);
      else ptx::wgmma_u8_s8(sums, left, right, adds);
    } else if constexpr (sizeof(TA) == 4) {
      static_assert(C.a_k_major && C.b_k_major);
      ptx::wgmma_tf32(sums, left, right, adds);
    } else {
      constexpr int trans_left = !(swap ? C.b_k_major : C.a_k_major), trans_right = !(swap ? C.a_k_major : C.b_k_major);
      if constexpr (IsBf16<TA>::value) ptx::wgmma_bf16<trans_left, trans_right>(sums, left, right, adds);
      else ptx::wgmma_f16<trans_left, trans_right>(sums, left, right, adds);
    }
  }

  /// One thread before all others go on: in a row, so that there is one fence before all of them and not one a stage.
  static __device__ __forceinline__ void initialize(u32 ring) {
#pragma unroll
    for (int s = 0; s < stages; ++s) {
      ptx::mbarrier_init(full(ring, s), 1);
      ptx::mbarrier_init(empty(ring, s), 4 * sharing * Patch::neighbours);
    }
    if constexpr (alternate)
      for (int g = 0; g < groups; ++g) ptx::mbarrier_init(turn(ring, g), 4);
    ptx::mbarrier_init(received(ring), 1);
    ptx::fence_mbarrier_init();
  }

  /// The warp is done with a stage. `first`: where its first lanes arrive for the first stage.
  static __device__ __forceinline__ void release(u32 first, int stage) {
    if constexpr (shares) {
      if (lane() < static_cast<int>(Patch::neighbours)) ptx::mbarrier_arrive_cluster(first + stage * 16);
    } else {
      if (lane() == 0) ptx::mbarrier_arrive(first + stage * 16);
    }
  }
  static __device__ __forceinline__ u32 released(u32 ring) {
    if constexpr (shares) return address_in_block(empty(ring, 0), Patch::neighbour(lane() % Patch::neighbours));
    else return empty(ring, 0);
  }

  /// The sums of `k_tiles` stages, one at least, from `at` on. Calls issued() when all of them have arrived and the last products
  /// are on their way. Overwrites: the first products are the sums, which are not set to 0 before: fewer instructions, but behind it
  /// ptxas must not move sums to other registers, as it does for gates (C7514).
  template <bool Overwrites, class F> __device__ __forceinline__ void multiply(u32 ring, int k_tiles, RingPlace& at, F&& issued) {
    if constexpr (stages_apart) multiply_apart(ring, k_tiles, at, issued);
    else multiply_together<Overwrites>(ring, k_tiles, at, issued);
  }

  using Left = HopperOperand<swap ? tile_n : tile_m, swap ? C.b_k_major : C.a_k_major, 1, line>;
  using Right = HopperOperand<swap ? tile_m : tile_n, swap ? C.a_k_major : C.b_k_major, 1, line>;
  /// Issues the products of the stage at `at`. Of the first the sums are none yet: said where it is compiled, or what they were before
  /// would be kept while it is finished.
  template <bool First> __device__ __forceinline__ void multiply_stage(u32 ring, u64 left, u64 right, const RingPlace& at) {
    wait_for_phase(full(ring, at.stage), at.phase);
    const u64 offset = static_cast<u64>(at.stage * (stage_bytes >> 4));
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < line / 32; ++step)
#pragma unroll
      for (int i = 0; i < rows; ++i)
        product(d[i], left + offset + i * Left::per_block + step * Left::per_step, right + offset + step * Right::per_step,
                step > 0 || !First);
    ptx::wgmma_commit_group();
    if constexpr (norm != HopperNorm::none)
      moments.add(ring + at.stage * stage_bytes + group_of_tile() * (rows * 8192)), __syncwarp();
  }

  template <bool Overwrites, class F>
  __device__ __forceinline__ void multiply_together(u32 ring, int k_tiles, RingPlace& at, F&& issued) {
    const u64 left = Left::descriptor(ring + (swap ? a_bytes : 0)) + group_of_tile() * (rows * Left::per_block);
    const u64 right = Right::descriptor(ring + (swap ? 0 : a_bytes));
    const u32 done = released(ring);
    int before = at.stage, t = 0;                                           // before: the stage of the step before
    const auto next = [&](bool behind) {
      ptx::wgmma_wait_group<1>();                                           // of the step before; those of this one are on their way
      if (behind) release(done, before);
      before = at.stage;
      at.template advance<stages>();
    };
    if constexpr (Overwrites) {
      multiply_stage<true>(ring, left, right, at);
      at.template advance<stages>();
#pragma unroll 1
      while (++t < k_tiles) multiply_stage<false>(ring, left, right, at), next(true);
    } else {
#pragma unroll
      for (int i = 0; i < rows; ++i)
#pragma unroll
        for (int e = 0; e < columns / 2; ++e) d[i][e] = 0;
      // At least one: where the sums could be those of no product, ptxas would serialise the products.
#pragma unroll 1
      do multiply_stage<false>(ring, left, right, at), next(t > 0);
      while (++t < k_tiles);
    }
    issued();
    ptx::wgmma_wait_group<0>();
    release(done, before);
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int e = 0; e < columns / 2; ++e) ptx::keep_order(d[i][e]);
  }

  /// Rows that are normalised first: their sums are those of the rows as they are, over the deviation.
  __device__ __forceinline__ void normalise(float inverse_k, float epsilon) {
    float of[rows][2];
    moments.inverse(of, inverse_k, epsilon);
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int e = 0; e < columns / 2; ++e) d[i][e] *= of[i][e / 2 % 2];
  }

  /// The same of 8-bit floats: while a group adds a stage's sums to those before, others multiply.
  template <class F> __device__ __forceinline__ void multiply_apart(u32 ring, int k_tiles, RingPlace& at, F&& issued) {
    static_assert(C.a_k_major && C.b_k_major && !alternate);
    const u64 left = OperandA::descriptor(ring + (swap ? a_bytes : 0)) + group_of_tile() * (rows * OperandA::per_block);
    const u64 right = OperandA::descriptor(ring + (swap ? 0 : a_bytes));     // all lines run along K
    const u32 done = released(ring);
    Sum part[rows][columns / 2] = {};
    int t = 0;
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int e = 0; e < columns / 2; ++e) d[i][e] = 0;
#pragma unroll 1
    do {
      wait_for_phase(full(ring, at.stage), at.phase);
      const u64 offset = static_cast<u64>(at.stage * (stage_bytes >> 4));
      ptx::wgmma_fence();
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const u64 a = left + offset + i * OperandA::per_block, b = right + offset;
        ptx::wgmma_e4m3<0>(part[i], a, b);
#pragma unroll
        for (int step = 1; step < 4; ++step) ptx::wgmma_e4m3<1>(part[i], a + step * OperandA::per_step, b + step * OperandA::per_step);
      }
      ptx::wgmma_commit_group();
      if (t + 1 == k_tiles) issued();
      ptx::wgmma_wait_group<0>();
      release(done, at.stage);
      at.template advance<stages>();
#pragma unroll
      for (int i = 0; i < rows; ++i)
#pragma unroll
        for (int e = 0; e < columns / 2; ++e) ptx::keep_order(part[i][e]), d[i][e] += part[i][e];
    } while (++t < k_tiles);
  }

  static __device__ __forceinline__ void copy_b(u32 to, const TensorMap& b, i32 column, i32 k, i32 matrix, u32 barrier,
                                                SharingBlocks with) {
    if constexpr (b_packed) copy_packed<OperandB::bytes>(to, b, static_cast<u32>(column) / tile_n, k, barrier);
    else OperandB::copy(to, b, column, k, matrix, barrier, with);
  }

  /// The copying thread's part of the same; `a`: what copies its lines, stage by stage. Of the first `ahead` stages b's part is on
  /// its way (copy_ahead).
  template <class Lines>
  static __device__ __forceinline__ void copy(u32 ring, Lines& a, const TensorMap& b, i32 column, i32 k, i32 matrix_b, int k_tiles,
                                              RingPlace& at, int ahead) {
    const SharingBlocks b_with = Patch::of_b();
#pragma unroll 1
    for (int t = 0; t < k_tiles; ++t, k += tile_k) {
      const u32 barrier = full(ring, at.stage), to = ring + at.stage * stage_bytes;
      if (t >= ahead) {
        wait_for_phase(empty(ring, at.stage), at.phase ^ 1);
        ptx::mbarrier_arrive_expect_tx(barrier, stage_bytes);
      }
      // b first: of the two it lies further away.
      if (t >= ahead) copy_b(to + a_bytes, b, column, k, matrix_b, barrier, b_with);
      a.copy(to, barrier);
      at.template advance<stages>();
    }
  }

  /// Fills the stages of an unused ring with b's part of the first steps; of how many of them. The copies' issue alone takes half
  /// a microsecond, so that this is for where there is time.
  static __device__ __forceinline__ int copy_ahead(u32 ring, const TensorMap& b, i32 column, i32 k, i32 matrix_b, int k_tiles) {
    const int ahead = k_tiles < stages ? k_tiles : stages;
    const SharingBlocks b_with = Patch::of_b();
#pragma unroll 1
    for (int t = 0; t < ahead; ++t, k += tile_k) {
      ptx::mbarrier_arrive_expect_tx(full(ring, t), stage_bytes);
      copy_b(ring + t * stage_bytes + a_bytes, b, column, k, matrix_b, full(ring, t), b_with);
    }
    return ahead;
  }

  /// The copying thread behind its last copy: the other blocks' arrivals for all stages have come, and this one may leave.
  static __device__ __forceinline__ void drain(u32 ring, RingPlace& at) {
#pragma unroll 1
    for (int s = 0; s < stages; ++s) {
      wait_for_phase(empty(ring, at.stage), at.phase ^ 1);
      at.template advance<stages>();
    }
  }

  /// Writes the sums to (M, pitch) of shared memory.
  __device__ __forceinline__ void write(Sum* to, int pitch) const {
    const int first = group_of_tile() * rows * 64 + threadIdx.x / 32 % 4 * 16 + lane() / 4;
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int j = 0; j < columns / 8; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int line = first + i * 64 + h * 8, column = j * 8 + lane() % 4 * 2;
          const Sum x = d[i][4 * j + 2 * h], y = d[i][4 * j + 2 * h + 1];
          if constexpr (swap) to[column * pitch + line] = x, to[(column + 1) * pitch + line] = y;
          else *reinterpret_cast<Vector<Sum, 2>*>(to + line * pitch + column) = {x, y};
        }
  }

  /// Calls f(row, column, values) for all of the tile, four neighbouring columns at a time. `exchange`: all warps' memory.
  template <class F> __device__ __forceinline__ void each(char* exchange, F&& f) const {
    const int warp = threadIdx.x / 32, first = group_of_tile() * rows * 64 + warp % 4 * 16;      // the warp's first line of left
    Sum* mine = reinterpret_cast<Sum*>(exchange) + warp * (exchange_bytes / 4);
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      if constexpr (swap) {
#pragma unroll
        for (int j = 0; j < columns / 8; ++j) {
          Sum* to = mine + lane() % 4 * 2 * exchange_row + lane() / 4;    // (8 rows of y, 16 columns)
          to[0] = d[i][4 * j], to[exchange_row] = d[i][4 * j + 1];
          to[8] = d[i][4 * j + 2], to[exchange_row + 8] = d[i][4 * j + 3];
          __syncwarp();
          const int row = lane() / 4, column = lane() % 4 * 4;
          const auto v = *reinterpret_cast<const Vector<Sum, 4>*>(mine + row * exchange_row + column);
          f(j * 8 + row, first + i * 64 + column, v.at);
          __syncwarp();
        }
      } else {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int from = 0; from < columns; from += part) {
#pragma unroll
            for (int j = 0; j < part / 8; ++j)
              *reinterpret_cast<Vector<Sum, 2>*>(mine + lane() / 4 * exchange_row + j * 8 + lane() % 4 * 2) = {
                  d[i][(from / 8 + j) * 4 + half * 2], d[i][(from / 8 + j) * 4 + half * 2 + 1]};
            __syncwarp();
#pragma unroll
            for (int q = 0; q < (part + 15) / 16; ++q) {
              const int at = q * 32 + lane(), row = at / (part / 4), column = at % (part / 4) * 4;
              if (part == 8 && row >= 8) continue;
              const auto v = *reinterpret_cast<const Vector<Sum, 4>*>(mine + row * exchange_row + column);
              f(first + i * 64 + half * 8 + row, from + column, v.at);
            }
            __syncwarp();
          }
      }
    }
  }
};

#endif
