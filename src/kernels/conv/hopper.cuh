// Convolutions of channels-last images on Hopper: the product of gemm/hopper.cuh whose left operand is never written.
//
//   y[p, m] = Epilogue(sum over segments, taps and channels of x[pixel(p, tap), channel] · w[m, segment, tap, channel])
//
//   p          (n, oh, ow) of the output, of a volume (n, od, oh, ow), in row-major order: the rows of the product; its columns are
//              the output channels m
//   pixel      h = oh * stride + kh * dilation - pad, d and w likewise; outside of the image zeros are read
//   x          segments [N, H, W, Ci] or [N, D, H, W, Ci] of any strides, but 1 along the channels; read in turn, as if they were
//              concatenated
//   w          lines along K: segments, their taps, these's channels with zeros up to whole stages
//
// Tensor maps in im2col mode copy the pixels under one tap of consecutive windows. They step from window to window, row to row
// and image to image, and fill the zeros; so the copying thread walks taps and channels alone (HopperWalk).
#pragma once

#include "gemm/hopper.cuh"
#include "kernels/conv/hopper.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Tile, int Segments, int Axes> class LeftLines<Tile, HopperConvArgs<Segments, Axes>> {
  using Args = HopperConvArgs<Segments, Axes>;
  static_assert(Tile::OperandA::k_major);
  static constexpr int lines = Tile::tile_m / Tile::across;                 // that this block brings to those beside it

 public:
  static __device__ __forceinline__ void prefetch(const Args& args) {
    ptx::prefetch_tensormap(&args.gemm.a);
#pragma unroll
    for (int s = 1; s < Segments; ++s) ptx::prefetch_tensormap(args.more + s - 1);
  }
  __device__ __forceinline__ LeftLines(const Args& args, u32, u32 row, u32 k)
      : args_(args), walk_(args.windows, args.chunks, Segments, k / Tile::tile_k) {
    const HopperWindows<Axes>& w = args.windows;
    u32 p = row + Tile::Patch::of_a().mine * lines;
#pragma unroll
    for (int a = Axes - 1; a >= 0; --a) {
      const u32 rest = w.out[a].quotient(p);
      at_[a] = static_cast<i32>(p - rest * w.out[a].divisor) * w.stride[a] + w.first[a];
      p = rest;
    }
    n_ = static_cast<i32>(p);
  }
  __device__ __forceinline__ i32 matrix_b() const { return 0; }
  /// Issues the copies of the next stage's.
  __device__ __forceinline__ void copy(u32 shared, u32 barrier) {
    const TensorMap* map = &args_.gemm.a;
    if constexpr (Segments > 1)
      if (walk_.segment > 0) map = args_.more + walk_.segment - 1;
    const i32 channel = static_cast<i32>(walk_.chunk * Tile::tile_k);
    const u16 right = static_cast<u16>(walk_.offset[Axes - 1]), down = static_cast<u16>(walk_.offset[Axes - 2]);
    const i32 w = at_[Axes - 1], h = at_[Axes - 2];
    const SharingBlocks with = Tile::Patch::of_a();
    const u32 to = shared + with.mine * (lines * Tile::line);
    if constexpr (Axes == 3) {
      const u16 behind = static_cast<u16>(walk_.offset[0]);
      if constexpr (Tile::across > 1)
        ptx::cp_async_bulk_tensor_5d_im2col_multicast(to, map, channel, w, h, at_[0], n_, barrier, right, down, behind, with.blocks);
      else ptx::cp_async_bulk_tensor_5d_im2col(to, map, channel, w, h, at_[0], n_, barrier, right, down, behind);
    } else if constexpr (Tile::across > 1)
      ptx::cp_async_bulk_tensor_4d_im2col_multicast(to, map, channel, w, h, n_, barrier, right, down, with.blocks);
    else ptx::cp_async_bulk_tensor_4d_im2col(to, map, channel, w, h, n_, barrier, right, down);
    walk_.advance(args_.windows, args_.chunks);
  }

 private:
  const Args& args_;
  HopperWalk<Axes> walk_;
  i32 n_, at_[Axes];                                                        // where the first window begins
};

#endif
