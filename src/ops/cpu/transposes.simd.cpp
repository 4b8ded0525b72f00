#include "ops/cpu/simd/transposes.h"

#include "expr/simd/transpose.h"

namespace smelt::SMELT_ISA {
namespace {

constexpr int64_t side = 16;

SMELT_INLINE void square(float* to, int64_t to_row, const float* from, int64_t from_column) {
  for (int64_t i = 0; i < side; i += lanes) {
    for (int64_t j = 0; j < side; j += lanes) {
      F32 v[lanes];
      SMELT_UNROLL
      for (int r = 0; r < lanes; ++r) v[r] = load(from + (j + r) * from_column + i);
      transpose(v);
      SMELT_UNROLL
      for (int r = 0; r < lanes; ++r) store(to + (i + r) * to_row + j, v[r]);
    }
  }
}

/// Squares that end with the rows or columns copy some elements again. The elements are any bits: moves of registers keep them.
void bands(uint32_t* to, const uint32_t* from, int64_t rows, int64_t columns, int64_t to_row, int64_t from_column) {
  auto* y = reinterpret_cast<float*>(to);
  const auto* x = reinterpret_cast<const float*>(from);
  for (int64_t j = 0; j < columns; j += side) {
    const int64_t column = j < columns - side ? j : columns - side;
    for (int64_t i = 0; i < rows; i += side) {
      const int64_t row = i < rows - side ? i : rows - side;
      square(y + row * to_row + column, to_row, x + row + column * from_column, from_column);
    }
  }
}

}  // namespace

ops::Transpose4 transpose_4() { return bands; }

}  // namespace smelt::SMELT_ISA
