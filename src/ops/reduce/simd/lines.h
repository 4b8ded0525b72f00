// Vectorised work on lines of elements: where their extremes stand, running totals, and what may be among the top few.
#pragma once

#include <cstdint>

namespace smelt::ops {

/// What a line holds. f16 and bf16 are compared and added as f32, narrow integers as what they are.
enum class LineElement : uint8_t { f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64 };

struct ArgRule {
  bool largest = true, last = false;  // of equal ones the last; a NaN is found first by either
};
struct ScanRule {
  bool product = false, exclusive = false, reverse = false;
};

struct LineSimd {
  /// y[r]: where the extreme of row r stands, n elements from x + r · n on.
  void (*arg_rows)(LineElement e, const void* x, int64_t rows, int64_t n, ArgRule rule, int64_t* y);
  /// y[c]: where the extreme of column c stands; its elements are `step` apart, the columns side by side.
  void (*arg_columns)(LineElement e, const void* x, int64_t step, int64_t columns, int64_t n, ArgRule rule, int64_t* y);
  /// The same of whole tensors [outers, n, columns].
  void (*arg_tensors)(LineElement e, const void* x, int64_t columns, int64_t n, int64_t outers, ArgRule rule, int64_t* y);
  /// Running totals of rows that lie one behind the other. Floating-point totals in double; integers wrap.
  void (*scan_rows)(LineElement e, const void* x, void* y, int64_t rows, int64_t n, ScanRule rule);
  /// The same of at most scan_columns_most columns side by side, whose elements are `step` apart.
  void (*scan_columns)(LineElement e, const void* x, void* y, int64_t step, int64_t columns, int64_t n, ScanRule rule);
  /// The same of whole tensors [outers, n, columns], at most scan_columns_most columns.
  void (*scan_tensors)(LineElement e, const void* x, void* y, int64_t columns, int64_t n, int64_t outers, ScanRule rule);
  /// The first i >= from whose element may come before x[worst]: is larger (or smaller), or one of both is a NaN. n where none does.
  int64_t (*next_before)(LineElement e, const void* x, int64_t from, int64_t n, int64_t worst, bool largest);
  /// places[j · places_step + c]: where the j-th of the first k <= top_columns_most elements of column c stands, in the order of the
  /// largest or the smallest first, equal ones as they stand; columns as for arg_columns, of n >= k elements. A NaN is the largest.
  void (*top_columns)(LineElement e, const void* x, int64_t step, int64_t columns, int64_t n, int64_t k, bool largest,
                      int64_t* places, int64_t places_step);
};
inline constexpr int64_t scan_columns_most = 512, top_columns_most = 8;

}  // namespace smelt::ops

namespace smelt::base {
const ops::LineSimd& line_simd();
}
namespace smelt::avx2 {
const ops::LineSimd& line_simd();
}
namespace smelt::avx512 {
const ops::LineSimd& line_simd();
}
