// QLinearConv, QLinearMatMul and QGemm: exact int32 sums, scaled and rounded once.
//
//   y = saturate(round(float(sum) * (a_scale * b_scale / y_scale)) + y_zero_point)
#include "base/error.h"
#include "ops/conv/conv.h"
#include "ops/core/broadcast_operand.h"
#include "ops/matmul/matmul.h"
#include "ops/quantize/products.h"
#include "ops/quantize/quantize.h"
#include "ops/quantize/shifted.h"

namespace smelt::ops {
namespace {

/// Rounds int32 sums into the output's integer type (or, for QGemm, scales them into f32).
class Requantize {
 public:
  Requantize(const Tensor& y_scale, const Tensor& y_zero_point, Tensor& y)
      : out_(y),
        wide_(Tensor::empty(is_float(y.type()) ? DType::f32 : DType::i32, y.shape())),
        y_scale_(y_scale.valid() ? scalar_float(y_scale, "y_scale") : 1.0f),
        zero_(y_zero_point.valid() ? static_cast<int32_t>(scalar_float(y_zero_point, "y_zero_point")) : 0),
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

Shape parameter_shape(const Tensor& t, size_t trailing) { return t.size() == 1 ? Shape{} : along(t.shape(), trailing); }

}  // namespace

// inputs: x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, bias?
void infer_qlinear_conv(InferContext& c) {
  if (c.node.get_int("channels_last", 0)) fail_unsupported("channels_last is not supported");
  const ConvProblem p = conv_problem(c.node, c.shape(0), c.shape(3));
  if (c.has(8) && c.shape(8) != Shape{p.m}) fail("B has shape {}, expected [{}]", to_string(c.shape(8)), p.m);
  c.set(0, c.has(7) ? c.in(7).type : c.in(0).type, with_spatial(p.n, p.m, p.out));
}

void run_qlinear_conv(ComputeContext& c) {
  const ConvProblem p = conv_problem(c.node, c.in(0).shape(), c.in(3).shape());
  const std::vector<int32_t> x = shifted(c.in(0), c.in(2)), w = shifted(c.in(3), c.in(5), p.in.size() + 1);
  const float x_scale = scalar_float(c.in(1), "x_scale");
  const Tensor w_scales = c.in(4).cast(DType::f32);
  const Parameter<float> w_scale(w_scales, {p.m}, parameter_shape(w_scales, 0));
  const int32_t* bias = c.has(8) ? c.in(8).data<int32_t>() : nullptr;
  Requantize y(c.in(6), c.in(7), c.outputs[0]);
  const int64_t plane = elements(p.out);
  convolve<int32_t>(p, x.data(), w.data(), [&](int64_t n, int64_t m, const int32_t* sums) {
    for (int64_t i = 0; i < plane; ++i)
      y.set((n * p.m + m) * plane + i, sums[i] + (bias ? bias[m] : 0), x_scale * w_scale.at(m, 1));
  });
  y.store();
}

// inputs: a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point
void infer_qlinear_matmul(InferContext& c) {
  c.set(0, c.has(7) ? c.in(7).type : c.in(0).type, matmul_problem(c.shape(0), c.shape(3)).y);
}

void run_qlinear_matmul(ComputeContext& c) {
  const MatMulProblem p = matmul_problem(c.in(0).shape(), c.in(3).shape());
  const std::vector<int32_t> a = shifted(c.in(0), c.in(2), 1), b = shifted(c.in(3), c.in(5));
  const Tensor a_scales = c.in(1).cast(DType::f32), b_scales = c.in(4).cast(DType::f32);
  const Parameter<float> a_scale(a_scales, p.y, parameter_shape(a_scales, 1)),
      b_scale(b_scales, p.y, parameter_shape(b_scales, 0));
  Requantize y(c.in(6), c.in(7), c.outputs[0]);
  multiply<int32_t>(p, a.data(), b.data(), [&](int64_t at, const int32_t* sums) {
    for (int64_t j = 0; j < p.n; ++j) y.set(at + j, sums[j], a_scale.at(at + j, 1) * b_scale.at(at + j, 1));
  });
  y.store();
}

namespace {

MatMulProblem qgemm_problem(const Node& node, const Shape& a, const Shape& b) {
  if (a.size() != 2 || b.size() != 2) fail("A and B have shapes {} and {}, expected rank 2", to_string(a), to_string(b));
  return matmul_problem(a, b, node.get_int("transA", 0) != 0, node.get_int("transB", 0) != 0);
}

}  // namespace

// inputs: a, a_scale, a_zero_point, b, b_scale, b_zero_point, bias (int32)?, y_scale?, y_zero_point?; f32 without y_scale
void infer_qgemm(InferContext& c) {
  const MatMulProblem p = qgemm_problem(c.node, c.shape(0), c.shape(3));
  if (c.has(6)) broadcast_strides(c.shape(6), p.y);
  c.set(0, !c.has(7) ? DType::f32 : c.has(8) ? c.in(8).type : c.in(0).type, p.y);
}

void run_qgemm(ComputeContext& c) {
  const MatMulProblem p = qgemm_problem(c.node, c.in(0).shape(), c.in(3).shape());
  // With transB b's columns are its rows, and so are its zero points.
  const std::vector<int32_t> a = shifted(c.in(0), c.in(2)), b = shifted(c.in(3), c.in(5), c.node.get_int("transB", 0) ? 1 : 0);
  const float scale = scalar_float(c.in(1), "a_scale") * c.node.get_float("alpha", 1.0f);
  const Tensor b_scales = c.in(4).cast(DType::f32);
  const Parameter<float> b_scale(b_scales, p.y, parameter_shape(b_scales, 0));
  const Parameter<int32_t> bias(c.in(6), p.y);
  Requantize y(c.in(7), c.in(8), c.outputs[0]);
  multiply<int32_t>(p, a.data(), b.data(), [&](int64_t at, const int32_t* sums) {
    for (int64_t j = 0; j < p.n; ++j) y.set(at + j, sums[j] + bias.at(at + j, 0), scale * b_scale.at(at + j, 1));
  });
  y.store();
}

}  // namespace smelt::ops
