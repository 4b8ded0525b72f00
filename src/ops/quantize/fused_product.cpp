#include "ops/quantize/fused_product.h"

#include "base/error.h"

namespace smelt::ops {

Tensor less_zero_point(const Tensor& v, const Tensor& zero, int64_t axis) {
  Tensor out = v.cast(DType::f64);
  if (!zero.valid()) return out;
  const std::vector<double> z = zero.to_doubles();
  const int64_t inner = strides(v.shape())[static_cast<size_t>(normalize_axis(axis, v.rank()))];
  const int64_t extent = v.shape()[static_cast<size_t>(normalize_axis(axis, v.rank()))];
  if (z.size() != 1 && static_cast<int64_t>(z.size()) != extent) fail("{} zero points for an axis of {}", z.size(), extent);
  double* p = out.data<double>();
  for (int64_t i = 0; i < out.size(); ++i) p[i] -= z[z.size() == 1 ? 0 : static_cast<size_t>(i / inner % extent)];
  return out;
}

Tensor scaled_sum(const Tensor& sum, const Tensor& a, const Tensor& b, int64_t axis) {
  Tensor out = sum.cast(DType::f32);
  const Tensor sa = a.cast(DType::f32), sb = b.cast(DType::f32);
  if (sa.size() != 1) fail("the first operand has {} scales, expected 1", sa.size());
  const int64_t at = normalize_axis(axis, sum.rank()), extent = sum.shape()[static_cast<size_t>(at)];
  const int64_t inner = strides(sum.shape())[static_cast<size_t>(at)];
  if (sb.size() != 1 && sb.size() != extent) fail("{} scales for an axis of {}", sb.size(), extent);
  float* p = out.data<float>();
  for (int64_t i = 0; i < out.size(); ++i)
    p[i] *= sa.data<float>()[0] * sb.data<float>()[sb.size() == 1 ? 0 : i / inner % extent];
  return out;
}

ValueId unsigned_activation(Body& b, ValueId x) {
  if (b.type(x) == DType::u8) return x;
  return b.cast(b.op("Add", {b.cast(x, DType::i32), b.number(DType::i32, 128)}), DType::u8);
}

ValueId zero_point(Body& b, size_t input, DType of) { return b.has(input) ? b.in(input) : b.number(of, 0); }

ValueId scale_product(Body& b, ValueId x, ValueId w) { return b.op("Mul", {b.cast(x, DType::f32), b.cast(w, DType::f32)}); }

}  // namespace smelt::ops
