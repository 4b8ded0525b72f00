// The argument of generate/random.cuh.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// T: the elements' type; void on the host.
template <class T> struct RandomArgs {
  T* y;                         // [count]
  u64* state;                   // how often this has run; a seed
  double first, second;         // low and high; mean and deviation
  u32 count;
  u32 padding;
};
static_assert(sizeof(RandomArgs<void>) == 40);

}  // namespace smelt::kernels
