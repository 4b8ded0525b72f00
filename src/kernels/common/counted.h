// Rounding to whole numbers by the least floats, for g++ and for NVRTC.
#pragma once

#include "kernels/common/args.h"
#ifndef __CUDACC__
#include <cmath>
#endif

namespace smelt::kernels {

/// The nearest whole number to x, halves to even, plus `more`, an even whole number of 0 to 256: as the bits of the result, which an
/// integer reads. Floats below 2^-126 lie 2^-149 apart, and their bits count them; so one multiply-add is rounded to a whole number of
/// those. Beyond 2^23 the bits grow on with x, and of what is below 0 they are, as an i32, below -2^23: both are for saturating.
/// x is a number; no flushing of small ones.
SMELT_SHARED inline float counted(float x, float more) {
#ifndef __CUDACC__
  using std::fmaf;
#endif
  return fmaf(x, 0x1p-149f, more * 0x1p-149f);
}

}  // namespace smelt::kernels
