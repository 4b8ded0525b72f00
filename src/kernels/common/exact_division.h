// Division by a number that is known before, for g++ and for NVRTC.
#pragma once

#include "kernels/common/args.h"
#ifndef __CUDACC__
#include <cmath>
#endif

namespace smelt::kernels {

/// a / b, where `reciprocal` is 1 / b in float and no step overflows or loses bits of a small number. The remainder is exact, and
/// one correction by it gives the quotient as division rounds it (tests/expr/division_test.cpp), in three instructions of a dozen.
SMELT_SHARED inline float over(float a, float b, float reciprocal) {
#ifndef __CUDACC__
  using std::fmaf;
#endif
  const float q = a * reciprocal;
  return fmaf(fmaf(q, -b, a), reciprocal, q);  // not -q: b is a literal, and its sign costs nothing
}

}  // namespace smelt::kernels
