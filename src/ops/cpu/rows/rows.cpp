#include "ops/cpu/rows/rows.h"

#include "base/value_of.h"
#include "expr/simd/isa.h"
#include "ops/cpu/rows/taps.h"

namespace smelt::ops {

const RowSimd& row_simd() { return simd::best() == simd::Isa::avx2 ? avx2::row_simd() : base::row_simd(); }
const TapSimd& tap_simd() { return simd::best() == simd::Isa::avx2 ? avx2::tap_simd() : base::tap_simd(); }
const Folds& folds() { return simd::best() == simd::Isa::avx2 ? avx2::folds() : base::folds(); }

std::optional<FloatKind> float_kind(DType t) {
  switch (t) {
    case DType::f32: return FloatKind::f32;
    case DType::f16: return FloatKind::f16;
    case DType::bf16: return FloatKind::bf16;
    default: return std::nullopt;
  }
}

FloatKind required_float_kind(DType t) { return value_of(float_kind(t), "a row kernel for this type"); }

RowViews::RowViews(const Shape& shape, size_t axis, const std::vector<Shape>& strides)
    : outer_(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis)),
      inner_(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end()),
      strides_(strides),
      axis_(axis),
      rows_(elements(outer_)),
      width_(elements(inner_)) {}

int64_t RowViews::offset(int64_t row, size_t k) const {
  int64_t at = 0;
  for (size_t a = axis_; a-- > 0; row /= outer_[a]) at += row % outer_[a] * strides_[k][a];
  return at;
}

std::optional<int64_t> RowViews::stride(size_t k) const {
  std::optional<int64_t> inner;
  int64_t extent = 1;
  for (size_t a = inner_.size(); a-- > 0;) {
    if (inner_[a] == 1) continue;
    const int64_t s = strides_[k][axis_ + a];
    if (!inner)
      inner = s;
    else if (s != *inner * extent)
      return std::nullopt;
    extent *= inner_[a];
  }
  return inner.value_or(1);
}

}  // namespace smelt::ops
