// Lines of elements along an axis of a dense tensor [outer, extent, inner].
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

struct Lines {
  u32 count;  // outer * inner; or elements
  i64 extent, inner;
#ifdef __CUDACC__
  __device__ __forceinline__ i64 begin(u32 line) const { return line / inner * extent * inner + line % inner; }
#endif
};
static_assert(sizeof(Lines) == 24);

}  // namespace smelt::kernels
