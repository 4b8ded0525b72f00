// Division by a number that the host knows at launch: a multiplication and a shift instead of some twenty instructions.
// Granlund and Montgomery, "Division by Invariant Integers using Multiplication", 1994, section 4, for n < 2^31.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

struct Divider {
  u32 divisor, multiplier, shift;
#ifdef __CUDACC__
  /// n / divisor
  __device__ __forceinline__ u32 quotient(u32 n) const { return (__umulhi(n, multiplier) + n) >> shift; }
#endif
};
static_assert(sizeof(Divider) == 12);

}  // namespace smelt::kernels
