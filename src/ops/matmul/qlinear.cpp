// QLinearMatMul, and ONNX Runtime's QGemm.
#include "base/error.h"
#include "ops/matmul/family.h"
#include "ops/matmul/flops.h"
#include "ops/matmul/matmul.h"
#include "ops/quantize/requantize.h"

namespace smelt::ops {
namespace {

// inputs: a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point
void infer_qlinear_matmul(InferContext& c) {
  for (const size_t i : {6, 7})
    if (c.has(i) && c.in(i).shape_known && elements(c.shape(i)) != 1)
      fail("{} has shape {}, expected one element", i == 6 ? "y_scale" : "y_zero_point", to_string(c.shape(i)));
  c.set(0, c.has(7) ? c.in(7).type : c.in(0).type, matmul_problem(c.shape(0), c.shape(3)).y);
}

void run_qlinear_matmul(ComputeContext& c) {
  const MatMulProblem p = matmul_problem(c.in(0).shape(), c.in(3).shape());
  const std::vector<int32_t> a = shifted(c.in(0), c.in(2), 1), b = shifted(c.in(3), c.in(5));
  const Tensor a_scales = c.in(1).cast(DType::f32), b_scales = c.in(4).cast(DType::f32);
  const BroadcastOperand<float> a_scale(a_scales, p.y, parameter_shape(a_scales, 1)),
      b_scale(b_scales, p.y, parameter_shape(b_scales, 0));
  Requantize y(c.in(6), c.in(7), c.outputs[0]);
  multiply_integers(p, a.data(), b.data(), [&](int64_t at, const int32_t* sums) {
    for (int64_t j = 0; j < p.n; ++j) y.set(at + j, sums[j], a_scale.at(at + j, 1) * b_scale.at(at + j, 1));
  });
  y.store();
}

MatMulProblem qgemm_problem(const Node& node, const Shape& a, const Shape& b) {
  if (a.size() != 2 || b.size() != 2) fail("A and B have shapes {} and {}, expected rank 2", to_string(a), to_string(b));
  return matmul_problem(a, b, node.get_int("transA", 0) != 0, node.get_int("transB", 0) != 0);
}

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
  const BroadcastOperand<float> b_scale(b_scales, p.y, parameter_shape(b_scales, 0));
  const BroadcastOperand<int32_t> bias(c.in(6), p.y);
  Requantize y(c.in(7), c.in(8), c.outputs[0]);
  multiply_integers(p, a.data(), b.data(), [&](int64_t at, const int32_t* sums) {
    for (int64_t j = 0; j < p.n; ++j) {
      const uint32_t sum = static_cast<uint32_t>(sums[j]) + static_cast<uint32_t>(bias.at(at + j, 0));
      y.set(at + j, static_cast<int32_t>(sum), scale * b_scale.at(at + j, 1));
    }
  });
  y.store();
}

}  // namespace

std::span<const OpRow> qlinear_matmul_ops() {
  static constexpr OpRow table[] = {
      {{"QLinearMatMul", onnx_domain, infer_qlinear_matmul, run_qlinear_matmul},
       {.flops = {.count = matmul_flops}, .autocast = Autocast::fp32, .contracts = true}},
      {{"QGemm", microsoft_domain, infer_qgemm, run_qgemm},
       {.flops = {.count = matmul_flops}, .autocast = Autocast::no_form, .contracts = true}},
  };
  return table;
}

}  // namespace smelt::ops
