// What the row kernels share: the vectorised functions for this CPU, and operands located row by row.
#pragma once

#include <optional>

#include "expr/cpu.h"
#include "ops/core/tactic.h"
#include "ops/cpu/rows/simd/folds.h"
#include "ops/cpu/rows/simd/rows.h"

namespace smelt::ops {

const RowSimd& row_simd();
const Folds& folds();
/// The types that rows are read and written in: f32, f16 and bf16; nothing for others.
std::optional<FloatKind> float_kind(DType t);
/// The same; throws Error for other types.
FloatKind required_float_kind(DType t);

/// Views of a shape whose last axes are a row: where each view's row begins, and how its elements lie within it.
class RowViews {
 public:
  /// `strides[k]`: of view k along every axis of `shape`; axes from `axis` on are the row.
  RowViews(const Shape& shape, size_t axis, const std::vector<Shape>& strides);
  int64_t rows() const { return rows_; }
  int64_t width() const { return width_; }
  /// The element offset of row `row` of view k.
  int64_t offset(int64_t row, size_t k) const;
  /// Elements from one to the next within a row, where that is one number (axes merged); nothing otherwise.
  std::optional<int64_t> stride(size_t k) const;

 private:
  Shape outer_, inner_;
  std::vector<Shape> strides_;
  size_t axis_;
  int64_t rows_, width_;
};

}  // namespace smelt::ops
