// The end of the QLinear products: exact int32 sums, scaled and rounded once.
//
//   y = saturate(round(float(sum) * (a_scale * b_scale / y_scale)) + y_zero_point)
#pragma once

#include "base/number.h"
#include "ops/core/broadcast_operand.h"
#include "ops/quantize/quantize.h"
#include "ops/quantize/shifted.h"

namespace smelt::ops {

/// Rounds int32 sums into the output's integer type (or, for QGemm, scales them into f32).
class Requantize {
 public:
  Requantize(const Tensor& y_scale, const Tensor& y_zero_point, Tensor& y)
      : out_(y),
        wide_(Tensor::empty(is_float(y.type()) ? DType::f32 : DType::i32, y.shape())),
        y_scale_(y_scale.valid() ? scalar_float(y_scale, "y_scale") : 1.0f),
        zero_(y_zero_point.valid() ? truncated<int32_t>(scalar_float(y_zero_point, "y_zero_point")) : 0),
        range_(is_float(y.type()) ? IntRange{} : int_range(y.type())) {}
  /// Element i becomes sum * scale, `scale` the product of the operands' scales.
  void set(int64_t i, int32_t sum, float scale) {
    if (wide_.type() == DType::f32)
      wide_.data<float>()[i] = static_cast<float>(sum) * scale;
    else
      wide_.data<int32_t>()[i] = saturate(static_cast<float>(sum) * (scale / y_scale_), zero_, range_);
  }
  void store() { copy_into(wide_.cast(out_.type()), out_); }

 private:
  Tensor& out_;
  Tensor wide_;
  float y_scale_;
  int32_t zero_;
  IntRange range_;
};

/// How a scale or zero point broadcasts: one value to everything, several along the axis with `trailing` axes behind it.
inline Shape parameter_shape(const Tensor& t, size_t trailing) { return t.size() == 1 ? Shape{} : along(t.shape(), trailing); }

}  // namespace smelt::ops
