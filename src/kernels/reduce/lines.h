// The arguments of reduce/lines.cuh.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// Lines of elements along an axis. T: the elements' type; void on the host.
template <class T> struct LineArgs {
  const T* x;                   // [outer, extent, inner]
  T* y;                         // [outer, extent, inner]
  i64 extent, inner;
  u32 count;                    // of threads: outer * inner, or the elements
#ifdef __CUDACC__
  /// Where a line begins.
  __device__ __forceinline__ i64 begin(u32 line) const { return line / inner * extent * inner + line % inner; }
#endif
};
static_assert(sizeof(LineArgs<void>) == 40);

/// Of respond: y = x / (bias + alpha / size * sum of squares of the `size` channels around)^beta.
struct Response {
  i64 size;
  float alpha, beta, bias;
};
static_assert(sizeof(Response) == 24);

template <class T> struct ResponseArgs {
  LineArgs<T> lines;
  Response response;
};
static_assert(sizeof(ResponseArgs<void>) == 64);

}  // namespace smelt::kernels
