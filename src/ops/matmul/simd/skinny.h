// Sums of a few rows against a matrix that lies as the model stored it; for *.simd.cpp sources and the driver
// (ops/matmul/cpu_skinny.cpp).
#pragma once

#include <cstdint>

#include "expr/simd/float_kind.h"

namespace smelt::ops::matmul {

inline constexpr int skinny_rows = 4;  // of A

struct SkinnyTable {
  /// y[m][j] = Σ over k of a[m][k] · b[k][j] for `columns` columns; rows of b are b_step elements apart, of a and y a_step and
  /// y_step.
  void (*across)(simd::FloatKind type, const void* b, int64_t b_step, int64_t k, int64_t columns, const float* a, int64_t a_step,
                 int rows, float* y, int64_t y_step);
  /// y[m][j] = Σ over k of a[m][k] · b[j][k].
  void (*along)(simd::FloatKind type, const void* b, int64_t b_step, int64_t k, int64_t columns, const float* a, int64_t a_step,
                int rows, float* y, int64_t y_step);
};

}  // namespace smelt::ops::matmul

namespace smelt::base {
const ops::matmul::SkinnyTable& skinny_table();
}
namespace smelt::avx2 {
const ops::matmul::SkinnyTable& skinny_table();
}
namespace smelt::avx512 {
const ops::matmul::SkinnyTable& skinny_table();
}
