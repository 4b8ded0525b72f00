#include "ops/conv/simd/deform.h"

namespace smelt::SMELT_ISA {
namespace {

template <int count> void blend(float* to, const float* const* from, const float* weights, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    float sum = 0;
    for (int k = 0; k < count; ++k) sum += weights[k] * from[k][i];
    to[i] = sum;
  }
}

void blend_any(float* to, const float* const* from, const float* weights, int count, int64_t n) {
  switch (count) {
    case 0: return blend<0>(to, from, weights, n);
    case 1: return blend<1>(to, from, weights, n);
    case 2: return blend<2>(to, from, weights, n);
    case 3: return blend<3>(to, from, weights, n);
    default: return blend<4>(to, from, weights, n);
  }
}

}  // namespace

ops::conv::Blend blend_pixels() { return blend_any; }

}  // namespace smelt::SMELT_ISA
