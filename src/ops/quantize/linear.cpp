// QuantizeLinear, DequantizeLinear (per tensor, per axis, blocked; integers of 2 to 32 bits and the small floats) and
// DynamicQuantizeLinear.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/quantize/quantize.h"
#include "ops/quantize/shifted.h"

namespace smelt::ops {
namespace {

/// Which scale belongs to an element: one for all, one for each index of an axis, or one for each block along an axis.
struct Granularity {
  AxisView view;
  int64_t block = 0;   // 0: not blocked
  int64_t blocks = 1;  // along the axis
  bool per_tensor = true;
  int64_t operator()(int64_t i) const {
    if (per_tensor) return 0;
    const int64_t inside = i / view.inner % view.extent;
    if (!block) return inside;
    return (i / (view.inner * view.extent) * blocks + inside / block) * view.inner + i % view.inner;
  }
};

Granularity granularity(const Node& node, const Shape& x, const Shape& scale) {
  Granularity g;
  const int64_t block = node.get_int("block_size", 0);
  if (!block && elements(scale) == 1) return g;
  const int64_t rank = static_cast<int64_t>(x.size());
  const int64_t axis = normalize_axis(rank == 1 ? 0 : node.get_int("axis", 1), rank);
  g.per_tensor = false;
  g.view = around_axis(x, axis);
  g.block = block;
  if (block < 0) fail("block_size is {}, expected 0 or more", block);
  Shape expected = {g.view.extent};
  if (block) {
    g.blocks = g.view.extent / block + (g.view.extent % block != 0);
    expected = x;
    expected[static_cast<size_t>(axis)] = g.blocks;
  }
  if (scale != expected)
    fail("the scale has shape {}, expected {} (axis {} of {})", to_string(scale), to_string(expected), axis, to_string(x));
  return g;
}

void check_zero_point(const InferContext& c) {
  if (c.has(2) && c.shape(2) != c.shape(1) && elements(c.shape(2)) != elements(c.shape(1))) {
    fail("the zero point has shape {}, expected the scale's {}", to_string(c.shape(2)), to_string(c.shape(1)));
  }
}

float rounded_to(float v, DType precision) {
  if (precision == DType::f16) return Half(v);
  if (precision == DType::bf16) return BFloat(v);
  return v;
}

}  // namespace

void infer_quantize(InferContext& c) {
  granularity(c.node, c.shape(0), c.shape(1));
  check_zero_point(c);
  const DType asked = static_cast<DType>(c.node.get_int("output_dtype", 0));
  const DType type = c.has(2) ? c.in(2).type : asked != DType::undefined ? asked : DType::u8;
  c.set(0, type, c.shape(0));
}

void run_quantize(ComputeContext& c) {
  const Tensor x = c.in(0).cast(DType::f32), scale = c.in(1).cast(DType::f32);
  const Granularity at = granularity(c.node, x.shape(), scale.shape());
  const DType type = c.outputs[0].type();
  DType precision = static_cast<DType>(c.node.get_int("precision", 0));
  if (precision == DType::undefined) precision = c.in(1).type();
  const float *from = x.data<float>(), *by = scale.data<float>();
  const auto quotient = [&](int64_t i) {
    if (precision == DType::f64) return static_cast<float>(static_cast<double>(from[i]) / static_cast<double>(by[at(i)]));
    return rounded_to(from[i] / by[at(i)], precision);
  };
  Tensor result;
  if (is_float(type)) {
    Tensor wide = Tensor::empty(DType::f32, x.shape());
    const Tensor zero = c.has(2) ? c.in(2).cast(DType::f32) : Tensor();
    for (int64_t i = 0; i < x.size(); ++i)
      wide.data<float>()[i] = quotient(i) + (zero.valid() ? zero.data<float>()[at(i)] : 0.0f);
    result = wide.cast(type, {.saturate = c.node.get_int("saturate", 1) != 0});
  } else {
    const IntRange range = int_range(type);
    const Tensor zero = c.has(2) ? c.in(2).cast(DType::i32) : Tensor();
    Tensor wide = Tensor::empty(DType::i32, x.shape());
    for (int64_t i = 0; i < x.size(); ++i) {
      wide.data<int32_t>()[i] = saturate(quotient(i), zero.valid() ? zero.data<int32_t>()[at(i)] : 0, range);
    }
    result = wide.cast(type);
  }
  copy_into(result, c.outputs[0]);
}

void infer_dequantize(InferContext& c) {
  granularity(c.node, c.shape(0), c.shape(1));
  check_zero_point(c);
  const DType asked = static_cast<DType>(c.node.get_int("output_dtype", 0));
  c.set(0, asked != DType::undefined ? asked : c.in(1).type, c.shape(0));
}

void run_dequantize(ComputeContext& c) {
  // Every quantized type's values, and their differences, are exact in double.
  const std::vector<double> x = c.in(0).to_doubles(), scale = c.in(1).to_doubles();
  const std::vector<double> zero = c.has(2) ? c.in(2).to_doubles() : std::vector<double>{};
  const Granularity at = granularity(c.node, c.in(0).shape(), c.in(1).shape());
  Tensor wide = Tensor::empty(DType::f64, c.in(0).shape());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t s = static_cast<size_t>(at(static_cast<int64_t>(i)));
    wide.data<double>()[i] = (x[i] - (zero.empty() ? 0 : zero[s])) * scale[s];
  }
  copy_into(wide.cast(c.outputs[0].type()), c.outputs[0]);
}

void copy_into(const Tensor& from, Tensor& to) {
  if (from.type() != to.type() || from.nbytes() != to.nbytes())
    fail("a result of {} {} does not fit into {} {}", name(from.type()), to_string(from.shape()), name(to.type()),
         to_string(to.shape()));
  std::memcpy(to.raw(), from.raw(), static_cast<size_t>(from.nbytes()));
}

Tensor dequantized(const Tensor& x, const Tensor& scale, const Tensor& zero_point) {
  const float by = scalar_float(scale, "the scale");
  const float zero = zero_point.valid() ? scalar_float(zero_point, "the zero point") : 0;
  Tensor y = x.cast(DType::f32);
  for (float& v : y.span<float>()) v = (v - zero) * by;
  return y;
}

void quantize_into(const Tensor& x, const Tensor& scale, const Tensor& zero_point, Tensor& y) {
  const float by = scalar_float(scale, "the scale");
  const int32_t zero = zero_point.valid() ? truncated<int32_t>(scalar_float(zero_point, "the zero point")) : 0;
  const IntRange range = int_range(y.type());
  Tensor wide = Tensor::empty(DType::i32, x.shape());
  for (int64_t i = 0; i < x.size(); ++i) wide.data<int32_t>()[i] = saturate(x.data<float>()[i] / by, zero, range);
  copy_into(wide.cast(y.type()), y);
}

void infer_dynamic_quantize(InferContext& c) {
  c.set(0, DType::u8, c.shape(0));
  c.set(1, DType::f32, {});
  c.set(2, DType::u8, {});
}

DynamicQuantized dynamic_quantize(const Tensor& x) {
  const Tensor wide = x.type() == DType::f32 ? x : x.cast(DType::f32);
  float low = 0, high = 0;  // the range always holds zero
  for (float v : wide.span<float>()) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  DynamicQuantized q{Tensor::empty(DType::u8, x.shape()), high == low ? 1.0f : (high - low) / 255, 0};
  q.zero_point = dynamic_zero_point(low, q.scale);
  for (int64_t i = 0; i < x.size(); ++i) {
    q.values.data<uint8_t>()[i] = static_cast<uint8_t>(saturate(wide.data<float>()[i] / q.scale, q.zero_point, {0, 255}));
  }
  return q;
}

void run_dynamic_quantize(ComputeContext& c) {
  const DynamicQuantized q = dynamic_quantize(c.in(0));
  copy_into(q.values, c.outputs[0]);
  if (c.outputs.size() > 1 && c.wants(1)) copy_into(Tensor::scalar(q.scale).cast(c.outputs[1].type()), c.outputs[1]);
  if (c.outputs.size() > 2 && c.wants(2)) *c.outputs[2].data<uint8_t>() = q.zero_point;
}

}  // namespace smelt::ops
