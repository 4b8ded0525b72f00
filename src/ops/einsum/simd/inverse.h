// A matrix inverted in place; for *.simd.cpp sources and the driver (ops/einsum/cpu_inverse.cpp).
#pragma once

#include <cstdint>

namespace smelt::ops {

/// `m` [n, n] becomes its inverse; `swaps`: n numbers. False where there is none.
using InvertFn = bool (*)(double* m, int64_t* swaps, int64_t n);

}  // namespace smelt::ops

namespace smelt::base {
ops::InvertFn invert_fn();
}
namespace smelt::avx2 {
ops::InvertFn invert_fn();
}
