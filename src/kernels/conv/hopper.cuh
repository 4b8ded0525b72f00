// Convolutions of channels-last images on Hopper: the product of gemm/hopper.cuh whose left operand is never written.
//
//   y[p, m] = Epilogue(sum over segments, taps and channels of x[pixel(p, tap), channel] · w[m, segment, tap, channel])
//
//   p          (n, oh, ow) of the output in row-major order: the rows of the product; its columns are the output channels m
//   pixel      h = oh * stride + kh * dilation - pad, w likewise; outside of the image zeros are read
//   x          segments [N, H, W, Ci] of any strides, but 1 along the channels; read in turn, as if they were concatenated
//   w          lines along K: segments, their taps, these's channels with zeros up to whole stages
//
// Tensor maps in im2col mode copy the pixels under one tap of consecutive windows. They step from window to window, row to row
// and image to image, and fill the zeros; so the copying thread walks taps and channels alone (HopperWalk).
#pragma once

#include "gemm/hopper.cuh"
#include "kernels/conv/hopper.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Tile, int Segments> class LeftLines<Tile, HopperConvArgs<Segments>> {
  using Args = HopperConvArgs<Segments>;
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
    const HopperWindows& w = args.windows;
    const u32 p = row + Tile::Patch::of_a().mine * lines, line = w.width.quotient(p), image = w.height.quotient(line);
    n_ = static_cast<i32>(image);
    h_ = static_cast<i32>(line - image * w.height.divisor) * w.stride[0] + w.first[0];
    w_ = static_cast<i32>(p - line * w.width.divisor) * w.stride[1] + w.first[1];
  }
  __device__ __forceinline__ i32 matrix_b() const { return 0; }
  /// Issues the copies of the next stage's.
  __device__ __forceinline__ void copy(u32 shared, u32 barrier) {
    const TensorMap* map = &args_.gemm.a;
    if constexpr (Segments > 1)
      if (walk_.segment > 0) map = args_.more + walk_.segment - 1;
    const i32 channel = static_cast<i32>(walk_.chunk * Tile::tile_k);
    const u16 right = static_cast<u16>(walk_.right), down = static_cast<u16>(walk_.down);
    const SharingBlocks with = Tile::Patch::of_a();
    const u32 to = shared + with.mine * (lines * 128);
    if constexpr (Tile::across > 1)
      ptx::cp_async_bulk_tensor_4d_im2col_multicast(to, map, channel, w_, h_, n_, barrier, right, down, with.blocks);
    else ptx::cp_async_bulk_tensor_4d_im2col(to, map, channel, w_, h_, n_, barrier, right, down);
    walk_.advance(args_.windows, args_.chunks);
  }

 private:
  const Args& args_;
  HopperWalk walk_;
  i32 n_, h_, w_;                                                           // where the first window begins
};

#endif
