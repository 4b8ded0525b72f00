// Convolutions of channels-last images on Hopper whose windows lie up to two pixels apart: as conv/hopper.cuh has them, but pixels
// are brought once for all taps of a phase (SlidingWindows), all taps where windows lie a pixel apart.
//
// Windows begin all over the images with their padding in place, so that the pixels under a phase's tap are those under its first a
// number of lines further on. A buffer has 128 bytes of channels of the pixels under the first tap of the tile's windows, and of the
// windows that the last tap reaches; wgmma reads it from any line on, as the permutation of a line's vectors goes by its address.
// So shared memory is filled once with a's lines where conv/hopper.cuh fills it taps times; windows that y does not have, one a row
// and a row an image, are multiplied in vain.
//
//   image      (buffers) of (Lines, 128 bytes)    pixels of a phase, of a chunk of their channels
//   weights    (stages) of (TileN, 128 bytes)     a tap's, of that chunk
//
// One warp brings pixels, another weights.
#pragma once

#include "gemm/hopper.cuh"
#include "kernels/conv/hopper.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class TA, HopperTileConfig C, int Lines, class TB = TA> struct SlidingTile : HopperTile<TA, C, TB> {
  using Base = HopperTile<TA, C, TB>;
  using Rows = SlidingWindows;
  using Base::d, Base::rows, Base::swap, Base::columns, Base::tile_m, Base::tile_n, Base::tile_k, Base::threads, Base::group_of_tile,
      Base::lane, Base::groups;
  static_assert(C.a_k_major && C.b_k_major && !C.alternate && !C.b_packed && C.across == 1 && C.down == 1 && C.registers == 0);
  static_assert(Lines % 8 == 0 && Lines >= tile_m && Lines <= 1024 && tile_n % 8 == 0);
  static constexpr int block_threads = threads + 64, buffers = 2, stages = C.stages;
  static constexpr int buffer_bytes = Lines * 128, stage_bytes = tile_n * 128;
  // Behind the stages: full and empty of each buffer, then of each stage.
  static constexpr int weights = buffers * buffer_bytes, barriers = weights + stages * stage_bytes;
  static constexpr int ring_bytes = barriers + (16 * (buffers + stages) + 127) / 128 * 128;

  static __device__ __forceinline__ u32 full(u32 ring, int stage) { return ring + barriers + (buffers + stage) * 16; }
  static __device__ __forceinline__ u32 empty(u32 ring, int stage) { return full(ring, stage) + 8; }
  static __device__ __forceinline__ u32 full_image(u32 ring, int buffer) { return ring + barriers + buffer * 16; }
  static __device__ __forceinline__ u32 empty_image(u32 ring, int buffer) { return full_image(ring, buffer) + 8; }

  /// One thread before all others go on.
  static __device__ __forceinline__ void initialize(u32 ring) {
#pragma unroll 1
    for (int s = 0; s < buffers + stages; ++s) {
      ptx::mbarrier_init(ring + barriers + s * 16, 1);
      ptx::mbarrier_init(ring + barriers + s * 16 + 8, 4 * groups);
    }
    ptx::fence_mbarrier_init();
  }

  /// The sums of `steps` taps of chunks, one at least. `image`, `at`: the next buffer and stage.
  __device__ __forceinline__ void multiply(u32 ring, const SlidingWindows& w, int steps, RingPlace& image, RingPlace& at) {
    using Pixels = HopperOperand<tile_m, true>;
    using Weights = HopperOperand<tile_n, true>;
    constexpr u64 line = 128 >> 4, per_step = Pixels::per_step, per_block = Pixels::per_block;
    const u64 first = Pixels::descriptor(ring) + (swap ? 0 : group_of_tile() * (rows * per_block));
    const u64 weights_at = Weights::descriptor(ring + weights) + (swap ? group_of_tile() * (rows * per_block) : 0);
    u32 right_phase = 0, down_phase = 0, right_taps = w.taps_of(1, 0), down_taps = w.taps_of(0, 0);
    u32 column = 0, row = 0;                                                // of the phase's tap
    u64 of_row = 0, of_tap = 0;                                             // where its lines begin
    int before = 0, image_before = 0, t = 0;                                // of the step before
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int e = 0; e < columns / 2; ++e) d[i][e] = 0;
    // At least one: where the sums could be those of no product, ptxas would serialise the products.
#pragma unroll 1
    do {
      const bool begins = (row | column) == 0;                              // a phase
      if (begins) wait_for_phase(full_image(ring, image.stage), image.phase);
      wait_for_phase(full(ring, at.stage), at.phase);
      const u64 pixels = first + static_cast<u64>(image.stage * (buffer_bytes >> 4)) + of_tap;
      const u64 filters = weights_at + static_cast<u64>(at.stage * (stage_bytes >> 4));
      const u64 left = swap ? filters : pixels, right = swap ? pixels : filters;
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step)
#pragma unroll
        for (int i = 0; i < rows; ++i)
          Base::product(d[i], left + i * per_block + step * per_step, right + step * per_step, 1);
      ptx::wgmma_commit_group();
      // The products of the step before are done, those of this one are on their way.
      ptx::wgmma_wait_group<1>();
      if (t > 0) {
        release(empty(ring, before));
        if (begins) release(empty_image(ring, image_before));
      }
      before = at.stage, image_before = image.stage;
      at.template advance<stages>();
      if (++column < right_taps) {
        of_tap += w.step[1] * line;
      } else if (column = 0; ++row < down_taps) {
        of_tap = of_row += w.step[0] * line;
      } else {
        row = 0, of_tap = of_row = 0, image.template advance<buffers>();
        if (++right_phase == w.phases(1)) right_phase = 0, down_phase = down_phase + 1 == w.phases(0) ? 0 : down_phase + 1;
        right_taps = w.taps_of(1, right_phase), down_taps = w.taps_of(0, down_phase);
      }
    } while (++t < steps);
    ptx::wgmma_wait_group<0>();
    release(empty(ring, before));
    release(empty_image(ring, image_before));
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int e = 0; e < columns / 2; ++e) ptx::keep_order(d[i][e]);
  }

 private:
  static __device__ __forceinline__ void release(u32 barrier) {
    if (lane() == 0) ptx::mbarrier_arrive(barrier);
  }
};

/// The thread that brings pixels.
template <class Tile, class Plan, int Segments>
__device__ __forceinline__ void copy_pixels(const SlidingConvArgs<Segments>& args, u32 ring) {
  const SlidingWindows& w = args.windows;
  RingPlace place;
#pragma unroll 1
  for (u32 at = blockIdx.x; at < args.gemm.tiles; at += gridDim.x) {
    const u32 p = TileOrigin<Tile>(at, args.gemm).row, line = w.width.quotient(p), image = w.height.quotient(line);
    const i32 column = static_cast<i32>((p - line * w.width.divisor) * w.stride[1]) + w.first[1];
    const i32 row = static_cast<i32>((line - image * w.height.divisor) * w.stride[0]) + w.first[0];
#pragma unroll 1
    for (int s = 0; s < Segments; ++s) {
      const TensorMap* const map = s == 0 ? &args.gemm.a : args.more + s - 1;
#pragma unroll 1
      for (u32 chunk = 0; chunk < args.chunks[s]; ++chunk)
#pragma unroll 1
        for (u32 down = 0; down < w.phases(0); ++down)
#pragma unroll 1
          for (u32 right = 0; right < w.phases(1); ++right) {
            const u32 barrier = Tile::full_image(ring, place.stage);
            wait_for_phase(Tile::empty_image(ring, place.stage), place.phase ^ 1);
            ptx::mbarrier_arrive_expect_tx(barrier, Tile::buffer_bytes);
            ptx::cp_async_bulk_tensor_4d_im2col(ring + place.stage * Tile::buffer_bytes, map, static_cast<i32>(chunk * Tile::tile_k),
                                                column, row, static_cast<i32>(image), barrier, static_cast<u16>(right),
                                                static_cast<u16>(down));
            place.template advance<Tile::buffers>();
          }
    }
    if constexpr (!Plan::persistent) break;
  }
}

/// Calls f(tap of the filter) phase by phase.
template <class F> __device__ __forceinline__ void each_tap(const SlidingWindows& w, F&& f) {
#pragma unroll 1
  for (u32 down = 0; down < w.phases(0); ++down)
#pragma unroll 1
    for (u32 right = 0; right < w.phases(1); ++right)
#pragma unroll 1
      for (u32 row = down; row < w.taps[0]; row += w.stride[0])
#pragma unroll 1
        for (u32 column = right; column < w.taps[1]; column += w.stride[1]) f(row * w.taps[1] + column);
}

/// The thread that brings weights, which lie as HopperWalk has them: segments, taps, chunks.
template <class Tile, class Plan, int Segments>
__device__ __forceinline__ void copy_weights(const SlidingConvArgs<Segments>& args, u32 ring) {
  const SlidingWindows& w = args.windows;
  RingPlace place;
#pragma unroll 1
  for (u32 at = blockIdx.x; at < args.gemm.tiles; at += gridDim.x) {
    const i32 column = static_cast<i32>(TileOrigin<Tile>(at, args.gemm).column);
    u32 before = 0;                                                         // lines of K of the segments before
#pragma unroll 1
    for (int s = 0; s < Segments; ++s) {
      const u32 chunks = args.chunks[s];
#pragma unroll 1
      for (u32 chunk = 0; chunk < chunks; ++chunk)
        each_tap(w, [&](u32 tap) {
          const u32 barrier = Tile::full(ring, place.stage);
          wait_for_phase(Tile::empty(ring, place.stage), place.phase ^ 1);
          ptx::mbarrier_arrive_expect_tx(barrier, Tile::stage_bytes);
          ptx::cp_async_bulk_tensor_3d(ring + Tile::weights + place.stage * Tile::stage_bytes, &args.gemm.b,
                                       static_cast<i32>((before + tap * chunks + chunk) * Tile::tile_k), column, 0, barrier);
          place.template advance<Tile::stages>();
        });
      before += w.taps[0] * w.taps[1] * chunks;
    }
    if constexpr (!Plan::persistent) break;
  }
}

/// The threads that have sums.
template <class Tile, class Plan, class Args>
__device__ __forceinline__ void slide_and_finish(const Args& args, char* memory, u32 ring) {
  const HopperGemmArgs& g = args.args.gemm;
  const SlidingWindows& w = args.args.windows;
  const int steps = static_cast<int>(g.k / Tile::tile_k);
  RingPlace image, place;
#pragma unroll 1
  for (u32 at = blockIdx.x; at < g.tiles; at += gridDim.x) {
    const TileOrigin<Tile> tile(at, g);
    Tile sums;                                                              // (TileM, TileN)
    typename Plan::template Registers<Tile, decltype(args.epilogue)> finish(args.epilogue, memory + Tile::ring_bytes, w, w.m, g.n);
    finish.begin(tile.batch, tile.row, tile.column);
    sums.multiply(ring, w, steps, image, place);
    finish.finish(sums);
    if constexpr (!Plan::persistent) break;
  }
}

/// Launch: as hopper_block's, tiles_m counting tiles of pixels.
template <class Tile, class Plan, class Args, class Epilogue>
__device__ __forceinline__ void sliding_block(const WithEpilogue<Args, Epilogue>& args) {
  static_assert(Plan::in_registers && Plan::splits == 1);
  extern __shared__ __align__(128) char shared[];
  const u32 beyond = (1024 - shared_address(shared) % 1024) % 1024, ring = shared_address(shared) + beyond;
  if (threadIdx.x == Tile::threads) {
    ptx::prefetch_tensormap(&args.args.gemm.a);
    ptx::prefetch_tensormap(&args.args.gemm.b);
    Tile::initialize(ring);
  }
  __syncthreads();
  if (threadIdx.x < Tile::threads) {
    wait_for_kernels_before();
    slide_and_finish<Tile, Plan>(args, shared + beyond, ring);
  } else if (threadIdx.x == Tile::threads) {
    wait_for_kernels_before();
    copy_pixels<Tile, Plan>(args.args, ring);
  } else if (threadIdx.x == Tile::threads + 32) {
    if (!args.args.gemm.b_ahead) wait_for_kernels_before();
    copy_weights<Tile, Plan>(args.args, ring);
  }
}

#endif
