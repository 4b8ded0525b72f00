#include "expr/simd/reduce.h"
#include "ops/conv/simd/deform.h"

namespace smelt::SMELT_ISA {
namespace {

template <int count> void blend(float* to, const float* const* from, const float* weights, int64_t n) {
  F32 factors[count > 0 ? count : 1];
  for (int k = 0; k < count; ++k) factors[k] = splat(weights[k]);
  for_registers(n, [&](int64_t i, int64_t some) {
    F32 sum = F32(0);
    for (int k = 0; k < count; ++k) sum = fma(factors[k], get(from[k] + i, some), sum);
    put(to + i, sum, some);
  });
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
