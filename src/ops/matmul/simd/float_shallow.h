// Products of floats with few elements to a sum; for *.simd.cpp sources and the driver (ops/matmul/cpu_float_shallow.cpp).
#pragma once

#include <cstdint>

#include "expr/simd/float_kind.h"

namespace smelt::ops::matmul {

inline constexpr int64_t float_shallow_k = 16;      // the deepest
inline constexpr int64_t float_shallow_lanes = 16;  // floats of the widest register

/// Rows of a by some columns of b: y[m][j] = end(bias[j] + Σ over k of a[m][k] · b[k][j]).
struct FloatShallow {
  const float* a;  // rows of k, one behind the other
  int64_t rows, k;
  const float* b;  // rows `b_step` apart, each of at least a register's floats
  int64_t b_step, columns;
  const float* bias;  // of the columns, a register's floats behind the last; null: none
  float low, high;    // the results' limits
  void* y;
  int64_t y_step;  // elements from row to row; what lies between a row and the next is left alone
};

struct FloatShallowTable {
  /// Element (k, n) at from[k · row + n · column] to to[k · step + n], times alpha. At least step elements of a row are written, those
  /// behind the last column as zeros; step is a multiple of float_shallow_lanes.
  void (*pack)(simd::FloatKind type, float* to, int64_t step, const void* from, int64_t k, int64_t columns, int64_t row,
               int64_t column, float alpha);
  /// y of this type.
  void (*multiply)(simd::FloatKind type, const FloatShallow& p);
};

}  // namespace smelt::ops::matmul

namespace smelt::base {
const ops::matmul::FloatShallowTable& float_shallow();
}
namespace smelt::avx2 {
const ops::matmul::FloatShallowTable& float_shallow();
}
namespace smelt::avx512 {
const ops::matmul::FloatShallowTable& float_shallow();
}
