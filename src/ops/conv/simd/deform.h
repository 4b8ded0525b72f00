// Weighted sums of pixels, for *.simd.cpp sources and the driver (ops/conv/cpu_deform.cpp).
#pragma once

#include <cstdint>

namespace smelt::ops::conv {

/// to[i] = Σ of weights[k] · from[k][i] over the `count` pixels, at most 4, for n channels; zeros where there is none.
using Blend = void (*)(float* to, const float* const* from, const float* weights, int count, int64_t n);

}  // namespace smelt::ops::conv

namespace smelt::base {
ops::conv::Blend blend_pixels();
}
namespace smelt::avx2 {
ops::conv::Blend blend_pixels();
}
