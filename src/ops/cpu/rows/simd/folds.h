// Vectorised folds of f32, f64, i32, i64 and bytes: many short rows a call, or many lines of columns.
#pragma once

#include <cstdint>

namespace smelt::ops {

/// How values fold into one: a + b, a + b², the larger, the smaller (NaN wins), a · b.
enum class Fold : uint8_t { sum, squares, max, min, product };

/// Integers wrap; a NaN wins against every number.
template <class T> struct FoldsOf {
  /// to[r] = the fold of the n values from x + r * step on. Of f32 a long row is summed in blocks, those in double.
  void (*rows)(Fold f, const T* x, int64_t step, int64_t rows, int64_t n, T* to);
  /// to[i] = to[i] folded with x[i], x[step + i], … of so many lines, one after the other.
  void (*lines)(Fold f, T* to, const T* x, int64_t step, int64_t lines, int64_t n);
};

struct Folds {
  FoldsOf<float> f32;
  FoldsOf<double> f64;
  FoldsOf<int32_t> i32;
  FoldsOf<int64_t> i64;
  FoldsOf<int8_t> i8;  // the larger and the smaller alone, as u8
  FoldsOf<uint8_t> u8;
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::Folds& folds();
}
namespace smelt::avx2 {
const ops::Folds& folds();
}
