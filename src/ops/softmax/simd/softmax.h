// Vectorised Softmax and LogSoftmax of f32, f16 and bf16: of rows, and of columns that lie side by side.
#pragma once

#include <cstdint>

#include "expr/simd/float_kind.h"

namespace smelt::ops {

/// Rows or columns of n elements; what is no number makes the whole row so. Scratch memory is aligned to 64 bytes.
struct SoftmaxSimd {
  using Kind = simd::FloatKind;
  /// Of `rows` rows, x_step and y_step elements apart; `scratch` holds row_floats(n) floats.
  void (*rows)(Kind t, const void* x, int64_t x_step, void* y, int64_t y_step, int64_t rows, int64_t n, float* scratch,
               bool logarithm);
  /// Of `columns` columns, whose elements are x_step and y_step apart; `scratch` holds column_floats(n) floats.
  void (*columns)(Kind t, const void* x, int64_t x_step, void* y, int64_t y_step, int64_t columns, int64_t n, float* scratch,
                  bool logarithm);
};

/// Columns that `columns` takes through its scratch memory at a time.
inline constexpr int64_t softmax_columns = 32;
constexpr int64_t column_floats(int64_t n) { return n * softmax_columns; }
/// Of a row a register more than it fills; rows shorter than a register are taken as columns, which lie beside it.
constexpr int64_t row_floats(int64_t n) { return n < 16 ? 2 * column_floats(n) : n + 16; }

}  // namespace smelt::ops

namespace smelt::base {
const ops::SoftmaxSimd& softmax_simd();
}
namespace smelt::avx2 {
const ops::SoftmaxSimd& softmax_simd();
}
namespace smelt::avx512 {
const ops::SoftmaxSimd& softmax_simd();
}
