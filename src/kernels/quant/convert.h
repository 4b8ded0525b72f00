// The arguments of quant/convert.cuh.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// X, Y: the types of the elements in memory; void on the host.
template <class X, class Y> struct CastArgs {
  const X* x;                   // [count]
  Y* y;                         // [count]
  u32 count;
};
static_assert(sizeof(CastArgs<void, void>) == 24);

/// Which scale belongs to an element: one for all (inner 0), one for each index of an axis, or (block > 0) one for each block
/// along it.
struct ScaleOf {
  u32 inner, extent, block, blocks;
#ifdef __CUDACC__
  __device__ __forceinline__ u32 operator()(u32 i) const {
    if (inner == 0) return 0;
    const u32 inside = i / inner % extent;
    return block == 0 ? inside : (i / (inner * extent) * blocks + inside / block) * inner + i % inner;
  }
#endif
};
static_assert(sizeof(ScaleOf) == 16);

/// S, Z: the types of the scales and of the zero points in memory; void on the host.
template <class X, class Y, class S, class Z> struct QuantizeArgs {
  const X* x;                   // [count]
  Y* y;                         // [count]
  const S* scale;               // (ScaleOf)
  const Z* zero;                // (ScaleOf); null: none
  u32 count;
  ScaleOf scale_of;
};
static_assert(sizeof(QuantizeArgs<void, void, void, void>) == 56);

}  // namespace smelt::kernels
