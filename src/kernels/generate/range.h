// The argument of generate/range.cuh.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// T: the elements' type; void on the host.
template <class T> struct RangeArgs {
  const T *start, *delta;
  T* y;                         // [count]
  u32 count;
};
static_assert(sizeof(RangeArgs<void>) == 32);

}  // namespace smelt::kernels
