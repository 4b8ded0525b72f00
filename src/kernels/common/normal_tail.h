// The tail of the normal distribution, for g++ and for NVRTC.
#pragma once

#include "kernels/common/args.h"
#ifndef __CUDACC__
#include <cmath>
#endif

namespace smelt::kernels {

/// log2 Φ(-u), u from 0 on: nearly a parabola. A minimax fit up to 5.6 with -1 at 0, which falls on behind it as far as floats go;
/// its error, and gelu's by it: tests/ops/cuda/gelu_test.cpp.
SMELT_SHARED inline float log2_normal_tail(float u) {
#ifndef __CUDACC__
  using std::fmaf;
#endif
  float p = -4.95736288e-07f;
  p = fmaf(p, u, 8.27034637e-06f);
  p = fmaf(p, u, -2.07212306e-05f);
  p = fmaf(p, u, -0.000587977644f);
  p = fmaf(p, u, 0.00773490174f);
  p = fmaf(p, u, -0.0530330725f);
  p = fmaf(p, u, -0.458999425f);
  p = fmaf(p, u, -1.15113473f);
  return fmaf(p, u, -1.0f);
}

}  // namespace smelt::kernels
