// MatMul, Gemm, MatMulInteger, and ONNX Runtime's FusedMatMul, FusedGemm, MatMulIntegerToFloat, DynamicQuantizeMatMul.
#include "ops/matmul/matmul.h"
#include "ops/matmul/flops.h"

#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/broadcast_operand.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/matmul/family.h"
#include "ops/pointwise/named_activation.h"
#include "ops/quantize/quantize.h"
#include "ops/quantize/shifted.h"

namespace smelt::ops {

MatMulProblem matmul_problem(Shape a, Shape b, bool trans_a, bool trans_b) {
  if (a.empty() || b.empty()) fail("the operands have shapes {} and {}, expected rank 1 or more", to_string(a), to_string(b));
  const std::string found =
      fmt::format("{}{} x {}{}", to_string(a), trans_a ? " transposed" : "", to_string(b), trans_b ? " transposed" : "");
  const bool vector_a = a.size() == 1, vector_b = b.size() == 1;
  if (vector_a) a.insert(a.begin(), 1), trans_a = false;
  if (vector_b) b.push_back(1), trans_b = false;
  MatMulProblem p;
  const int64_t a_rows = a[a.size() - 2], a_cols = a.back(), b_rows = b[b.size() - 2], b_cols = b.back();
  p.m = trans_a ? a_cols : a_rows;
  p.k = trans_a ? a_rows : a_cols;
  p.n = trans_b ? b_rows : b_cols;
  if (p.k != (trans_b ? b_cols : b_rows))
    fail("{} do not multiply: inner extents {} and {}", found, p.k, trans_b ? b_cols : b_rows);
  p.a_row = trans_a ? 1 : a_cols;
  p.a_col = trans_a ? a_cols : 1;
  p.b_row = trans_b ? 1 : b_cols;
  p.b_col = trans_b ? b_cols : 1;
  const Shape a_batch(a.begin(), a.end() - 2), b_batch(b.begin(), b.end() - 2);
  const std::optional<Shape> batch = broadcast(a_batch, b_batch);
  if (!batch) fail("{} do not multiply: batch extents do not broadcast", found);
  p.batch = *batch;
  p.a_batch = broadcast_strides(a_batch, p.batch);
  p.b_batch = broadcast_strides(b_batch, p.batch);
  for (int64_t& s : p.a_batch) s *= a_rows * a_cols;
  for (int64_t& s : p.b_batch) s *= b_rows * b_cols;
  p.y = p.batch;
  if (!vector_a) p.y.push_back(p.m);
  if (!vector_b) p.y.push_back(p.n);
  return p;
}

namespace {

/// Runs body(context, T{}) in float or double for floating-point operands, in the operands' own type for integers.
template <class F> void in_number(ComputeContext& c, F&& body) {
  switch (c.in(0).type()) {
    case DType::i32: return body(c, int32_t{});
    case DType::i64: return body(c, int64_t{});
    case DType::u32: return body(c, uint32_t{});
    case DType::u64: return body(c, uint64_t{});
    default: in_float(c, body);
  }
}

/// Sums of integers wrap as unsigned ones do; those of floats are taken in double.
template <class T> struct SumOf { using type = double; };
template <> struct SumOf<int32_t> { using type = uint32_t; };
template <> struct SumOf<uint32_t> { using type = uint32_t; };
template <> struct SumOf<int64_t> { using type = uint64_t; };
template <> struct SumOf<uint64_t> { using type = uint64_t; };

MatMulProblem fused_problem(const Node& node, const Shape& a, const Shape& b) {
  if (node.get_int("transBatchA", 0) || node.get_int("transBatchB", 0))
    fail_unsupported("transBatchA and transBatchB are not supported");
  return matmul_problem(a, b, node.get_int("transA", 0) != 0, node.get_int("transB", 0) != 0);
}

void infer_matmul(InferContext& c) { c.set(0, type_of(c, 0), fused_problem(c.node, c.shape(0), c.shape(1)).y); }

void run_matmul(ComputeContext& ctx) {
  in_number(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    using Acc = typename SumOf<T>::type;
    const MatMulProblem p = fused_problem(c.node, c.in(0).shape(), c.in(1).shape());
    Acc alpha = 1;  // FusedMatMul's; floating-point only
    if constexpr (std::is_floating_point_v<Acc>) alpha = static_cast<Acc>(c.node.get_float("alpha", 1.0f));
    T* y = c.outputs[0].data<T>();
    multiply<Acc>(p, c.in(0).data<T>(), c.in(1).data<T>(), [&](int64_t at, const Acc* sums) {
      for (int64_t j = 0; j < p.n; ++j) y[at + j] = static_cast<T>(alpha * sums[j]);
    });
  });
}

MatMulProblem gemm_problem(const Node& node, const Shape& a, const Shape& b) {
  if (a.size() != 2 || b.size() != 2) fail("A and B have shapes {} and {}, expected rank 2", to_string(a), to_string(b));
  return matmul_problem(a, b, node.get_int("transA", 0) != 0, node.get_int("transB", 0) != 0);
}

void infer_gemm(InferContext& c) {
  const MatMulProblem p = gemm_problem(c.node, c.shape(0), c.shape(1));
  if (c.has(2)) broadcast_strides(c.shape(2), p.y);
  c.set(0, type_of(c, 0), p.y);
}

/// y = activation(alpha * A * B + beta * C)
template <class Activate> void gemm(ComputeContext& ctx, Activate activate) {
  in_number(ctx, [&](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    using Acc = typename SumOf<T>::type;
    const MatMulProblem p = gemm_problem(c.node, c.in(0).shape(), c.in(1).shape());
    const double alpha = c.node.get_float("alpha", 1.0f), beta = c.node.get_float("beta", 1.0f);
    const BroadcastOperand<T> bias(c.in(2), p.y);
    T* y = c.outputs[0].data<T>();
    multiply<Acc>(p, c.in(0).data<T>(), c.in(1).data<T>(), [&](int64_t at, const Acc* sums) {
      for (int64_t j = 0; j < p.n; ++j) {
        if constexpr (std::is_floating_point_v<T>) {
          y[at + j] =
              static_cast<T>(activate(alpha * sums[j] + (bias.given() ? beta * static_cast<double>(bias.at(at + j, 0)) : 0.0)));
        } else if (alpha == 1 && beta == 1) {
          y[at + j] = static_cast<T>(sums[j] + static_cast<Acc>(bias.at(at + j, 0)));
        } else {
          const double v = alpha * static_cast<double>(static_cast<T>(sums[j])) + beta * static_cast<double>(bias.at(at + j, 0));
          y[at + j] = std::isnan(v) ? T{} : truncated<T>(v);
        }
      }
    });
  });
}

void run_gemm(ComputeContext& c) {
  gemm(c, [](double v) { return v; });
}
void run_fused_gemm(ComputeContext& c) {
  const Activation f = fused_activation(c.node);
  gemm(c, [&](double v) { return f(v); });
}

void infer_matmul_integer(InferContext& c) { c.set(0, DType::i32, matmul_problem(c.shape(0), c.shape(1)).y); }

void run_matmul_integer(ComputeContext& c) {
  const MatMulProblem p = matmul_problem(c.in(0).shape(), c.in(1).shape());
  const std::vector<int32_t> a = shifted(c.in(0), c.in(2), 1), b = shifted(c.in(1), c.in(3));
  int32_t* y = c.outputs[0].data<int32_t>();
  multiply_integers(p, a.data(), b.data(), [&](int64_t at, const int32_t* sums) { std::copy(sums, sums + p.n, y + at); });
}

/// y = (a - a_zero)(b - b_zero) * a_scale * b_scale + bias, in float; b's scale one value or one for each column.
void scaled_product(const Tensor& a, const Tensor& a_zero, const Tensor& a_scale, const Tensor& b, const Tensor& b_zero,
                    const Tensor& b_scale, const Tensor& bias, Tensor& out) {
  const MatMulProblem p = matmul_problem(a.shape(), b.shape());
  const std::vector<int32_t> x = shifted(a, a_zero, 1), w = shifted(b, b_zero);
  const Tensor a_by = a_scale.cast(DType::f32), b_by = b_scale.cast(DType::f32),
               add = bias.valid() ? bias.cast(DType::f32) : Tensor();
  const BroadcastOperand<float> row_scale(a_by, p.y, a_by.size() == 1 ? Shape{} : along(a_by.shape(), 1));
  const BroadcastOperand<float> column_scale(b_by, p.y, b_by.size() == 1 ? Shape{} : b_by.shape()), column_bias(add, p.y);
  Tensor y = out.type() == DType::f32 ? out : Tensor::empty(DType::f32, p.y);
  multiply_integers(p, x.data(), w.data(), [&](int64_t at, const int32_t* sums) {
    for (int64_t j = 0; j < p.n; ++j) {
      const float scale = row_scale.at(at + j, 1) * column_scale.at(at + j, 1);
      y.data<float>()[at + j] = static_cast<float>(sums[j]) * scale + column_bias.at(at + j, 0);
    }
  });
  if (out.type() != DType::f32) copy_into(y.cast(out.type()), out);
}

// inputs: a, b, a_scale, b_scale, a_zero?, b_zero?, bias?
void infer_integer_to_float(InferContext& c) { c.set(0, type_of(c, 2), matmul_problem(c.shape(0), c.shape(1)).y); }
void run_integer_to_float(ComputeContext& c) {
  scaled_product(c.in(0), c.in(4), c.in(2), c.in(1), c.in(5), c.in(3), c.in(6), c.outputs[0]);
}

// inputs: a (float), b, b_scale, b_zero?, bias?
void infer_dynamic_matmul(InferContext& c) { c.set(0, type_of(c, 0), matmul_problem(c.shape(0), c.shape(1)).y); }
void run_dynamic_matmul(ComputeContext& c) {
  const DynamicQuantized a = dynamic_quantize(c.in(0));
  scaled_product(a.values, Tensor::scalar(a.zero_point), Tensor::scalar(a.scale), c.in(1), c.in(3), c.in(2), c.in(4),
                 c.outputs[0]);
}

}  // namespace

std::span<const OpRow> matmul_ops() {
  static constexpr OpRow table[] = {
      {{"MatMul", onnx_domain, infer_matmul, run_matmul}, {.flops = {.count = matmul_flops}, .contracts = true}},
      {{"Gemm", onnx_domain, infer_gemm, run_gemm}, {.flops = {.count = matmul_flops}, .contracts = true}},
      {{"MatMulInteger", onnx_domain, infer_matmul_integer, run_matmul_integer},
       {.flops = {.count = matmul_flops}, .contracts = true, .expands_on_gpu = true}},
      {{"FusedMatMul", microsoft_domain, infer_matmul, run_matmul}, {.flops = {.count = matmul_flops}, .contracts = true}},
      {{"FusedGemm", microsoft_domain, infer_gemm, run_fused_gemm},
       {.flops = {.count = matmul_flops}, .contracts = true, .expands_on_gpu = true}},
      {{"MatMulIntegerToFloat", microsoft_domain, infer_integer_to_float, run_integer_to_float},
       {.flops = {.count = matmul_flops}, .autocast = Autocast::no_form, .contracts = true, .expands_on_gpu = true}},
      {{"DynamicQuantizeMatMul", microsoft_domain, infer_dynamic_matmul, run_dynamic_matmul},
       {.flops = {.count = matmul_flops}, .autocast = Autocast::no_form, .contracts = true, .expands_on_gpu = true}},
  };
  return table;
}

}  // namespace smelt::ops
