// Which scale belongs to an element.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// One for all (inner 0), one for each index of an axis, or (block > 0) one for each block along it.
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

}  // namespace smelt::kernels
