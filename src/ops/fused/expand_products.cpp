// Bodies of the products: Conv, MatMul and their quantised forms.
#include "base/error.h"
#include "ops/conv/segments.h"
#include "ops/core/function_body.h"

namespace smelt::ops {
namespace {

/// Cast to signed 32-bit, less the zero point: what a quantised operand stands for. Reshaped zero points come from the caller.
ValueId channels(Body& b, ValueId v, size_t input, int64_t axes_behind) {
  // [M] to [M, 1, …]: one value a channel; scalars stay.
  if (b.rank(input) == 0 || (b.shape(input)[0].known() && b.shape(input)[0].value == 1)) return b.op("Reshape", {v, b.ints({})});
  std::vector<int64_t> shape(static_cast<size_t>(axes_behind) + 1, 1);
  shape[0] = -1;
  return b.op("Reshape", {v, b.ints(shape)});
}

/// Integer operators take unsigned activations everywhere: a signed one is moved up by 128, its zero point too.
ValueId unsigned_activation(Body& b, ValueId x) {
  if (b.type(x) == DType::u8) return x;
  return b.cast(b.op("Add", {b.cast(x, DType::i32), b.number(DType::i32, 128)}), DType::u8);
}

ValueId zero_point(Body& b, size_t input, DType of) { return b.has(input) ? b.in(input) : b.number(of, 0); }

/// Scales' product, in f32.
ValueId scales(Body& b, ValueId x, ValueId w) { return b.op("Mul", {b.cast(x, DType::f32), b.cast(w, DType::f32)}); }

}  // namespace

std::vector<ValueId> expand_conv(Body& b) {
  const ConvSegments s(b.node());
  const DType c = b.accumulator();
  std::vector<ValueId> parts;
  for (size_t i = 0; i < s.count; ++i) {
    ValueId x = b.cast(b.in(i), c);
    if (s.upsample[i] != 1) {
      if (b.rank(i) < 3) fail("segment {} has rank {}, expected [batch, channels, spatial…]", i, b.rank(i));
      std::vector<float> factors(static_cast<size_t>(b.rank(i)), static_cast<float>(s.upsample[i]));
      factors[0] = factors[1] = 1;
      x = b.op("Resize", {x, ValueId::none, b.floats(factors)},
               {{"mode", std::string("nearest")},
                {"coordinate_transformation_mode", std::string("asymmetric")},
                {"nearest_mode", std::string("floor")}});
    }
    parts.push_back(x);
  }
  const ValueId x = parts.size() == 1 ? parts[0] : b.op("Concat", parts, {{"axis", int64_t{1}}});
  std::vector<ValueId> inputs = {x, b.cast(b.in(s.weight()), c)};
  if (b.has(s.bias())) inputs.push_back(b.cast(b.in(s.bias()), c));
  return {b.epilogue(b.op("Conv", inputs, s.conv_attributes), s.operands())};
}

std::vector<ValueId> expand_qlinear_conv(Body& b) {
  const ConvSegments s(b.node());
  const int64_t spatial = b.rank(1) - 2;  // the weights' rank is x's, and known more often
  if (spatial < 1) fail("the weights have rank {}, expected [channels, channels, spatial…]", b.rank(1));
  const DType x_type = b.type(b.in(0)), w_type = b.type(b.in(1));
  ValueId sum;
  if (b.has(6) && b.rank(6) > 0 && !(b.shape(6)[0].known() && b.shape(6)[0].value == 1)) {
    // ONNX Runtime's ConvInteger takes one zero point of the weights: one for each channel is subtracted before. Sums beyond 2^53
    // are none.
    const ValueId zero = b.op("Reshape", {zero_point(b, 4, x_type), b.ints({})});
    const ValueId x = b.op("Sub", {b.cast(b.in(0), DType::f64), b.cast(zero, DType::f64)});
    const ValueId w = b.op("Sub", {b.cast(b.in(1), DType::f64), b.cast(channels(b, b.in(6), 6, spatial + 1), DType::f64)});
    sum = b.cast(b.op("Conv", {x, w}, s.conv_attributes), DType::i32);
  } else {
    std::vector<ValueId> inputs = {unsigned_activation(b, b.in(0)), b.in(1), unsigned_activation(b, zero_point(b, 4, x_type))};
    if (b.has(6)) inputs.push_back(zero_point(b, 6, w_type));
    sum = b.op("ConvInteger", inputs, DType::i32, s.conv_attributes);
  }
  if (b.has(2)) sum = b.op("Add", {sum, channels(b, b.in(2), 2, spatial)});
  const ValueId scale = scales(b, b.op("Reshape", {b.in(3), b.ints({})}), channels(b, b.in(5), 5, spatial));
  return {b.epilogue(b.op("Mul", {b.cast(sum, DType::f32), scale}), 7)};
}

std::vector<ValueId> expand_matmul(Body& b) {
  const DType c = b.accumulator();
  ValueId left = b.cast(b.in(0), c), right = b.cast(b.in(1), c);
  if (b.node().get_int("transA", 0)) left = b.swap_last(left, b.rank(0));
  if (b.node().get_int("transB", 0)) right = b.swap_last(right, b.rank(1));
  ValueId y = b.op("MatMul", {left, right});
  if (const float alpha = b.node().get_float("alpha", 1); alpha != 1) y = b.op("Mul", {y, b.number(c, alpha)});
  return {b.epilogue(y, 2)};
}

std::vector<ValueId> expand_qlinear_matmul(Body& b) {
  const bool trans_a = b.node().get_int("transA", 0), trans_b = b.node().get_int("transB", 0);
  ValueId left = unsigned_activation(b, b.in(0)), right = b.in(1);
  if (trans_a) left = b.swap_last(left, b.rank(0));
  if (trans_b) right = b.swap_last(right, b.rank(1));
  std::vector<ValueId> inputs = {left, right, unsigned_activation(b, zero_point(b, 3, b.type(b.in(0))))};
  if (b.has(5)) inputs.push_back(b.in(5));
  const ValueId sum = b.op("MatMulInteger", inputs, DType::i32);
  return {b.epilogue(b.op("Mul", {b.cast(sum, DType::f32), scales(b, b.in(2), b.in(4))}), 6)};
}

}  // namespace smelt::ops
