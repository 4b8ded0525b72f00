#include "ops/matmul/int8_problem.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "ops/core/quantized_program.h"
#include "ops/core/strides.h"
#include "ops/cpu/igemm/igemm.h"

namespace smelt::ops::matmul {
namespace {

constexpr size_t absent = SIZE_MAX;

/// Where an operator keeps its parameters.
struct Positions {
  size_t a, b, bias, a_scale, a_zero, b_scale, b_zero, y_scale, y_zero, operands;
};

Positions positions(const Node& n) {
  if (n.domain == smelt_domain) return {0, 1, absent, 2, 3, 4, 5, absent, absent, 6};
  if (n.op == "MatMulInteger") return {0, 1, absent, absent, 2, absent, 3, absent, absent, absent};
  if (n.op == "QGemm") return {0, 3, 6, 1, 2, 4, 5, 7, 8, 9};
  return {0, 3, absent, 1, 2, 4, 5, 6, 7, 8};
}

/// The bias [N], [1, N] or a scalar as one number for each column; nothing for other shapes.
std::optional<std::vector<int32_t>> by_column(const BoundTensor& t, int64_t columns) {
  if (t.constant.size() != 1 && (t.constant.size() != columns || t.shape.back() != columns)) return std::nullopt;
  std::vector<int32_t> values = quantized_integers(t.constant);
  if (values.size() == 1) values.resize(static_cast<size_t>(columns), values[0]);
  return values;
}

}  // namespace

std::optional<Product> int8_product(const BoundNode& b, std::string& why) {
  const Node& n = *b.node;
  const Positions at = positions(n);
  const auto left_out = [&](size_t i) { return i >= b.inputs.size() || b.inputs[i].type == DType::undefined; };
  const auto constant = [&](size_t i) { return left_out(i) ? Tensor{} : b.inputs[i].constant; };
  const bool integer = n.op == "MatMulInteger", gives_f32 = n.op == "QGemm" && left_out(at.y_scale);
  for (size_t i : {at.b, at.a_scale, at.b_scale, at.b_zero, at.bias, at.y_scale, at.y_zero}) {
    if (i != absent && !left_out(i) && !constant(i).valid()) why = "the right operand or a parameter is not constant";
  }
  if (!left_out(at.a_zero) && !constant(at.a_zero).valid() && !integer) why = "the left operand's zero point is not constant";
  if (b.inputs[at.a].shape.size() < 2 || b.inputs[at.b].shape.size() < 2) why = "an operand is a vector";
  if (!why.empty()) return std::nullopt;

  // The geometry is that of a plain product of the two operands.
  auto plain = std::make_shared<Node>();
  plain->domain = smelt_domain;
  plain->op = "MatMul";
  for (const char* attribute : {"transA", "transB"}) {
    if (n.get_int(attribute, 0)) plain->attrs[attribute] = int64_t{1};
  }
  BoundNode geometry;
  geometry.node = plain.get();
  geometry.inputs = {b.inputs[at.a], b.inputs[at.b]};
  geometry.outputs = b.outputs;
  Product p = product(geometry);
  p.bound = b;
  p.a = at.a;
  p.b = at.b;
  p.operands = std::min(at.operands, b.inputs.size());
  const int64_t columns = p.problem.n;
  Quantization q;

  if (left_out(at.a_zero))
    q.a_zero = 0;
  else if (constant(at.a_zero).valid() && constant(at.a_zero).size() == 1)
    q.a_zero = quantized_integers(constant(at.a_zero))[0];
  else if (!constant(at.a_zero).valid() && elements(b.inputs[at.a_zero].shape) == 1)
    q.a_zero_input = at.a_zero;
  else
    why = "a zero point for each row";
  q.b_zeros = left_out(at.b_zero) ? std::vector<int32_t>{0} : quantized_integers(constant(at.b_zero));
  if (q.b_zeros.size() != 1 && static_cast<int64_t>(q.b_zeros.size()) != columns)
    why = "zero points that are not one for each column";
  if (!left_out(at.bias)) {
    const auto bias = by_column(b.inputs[at.bias], columns);
    if (bias)
      q.bias = *bias;
    else
      why = "a bias that is not one number for each column";
  }
  auto node = std::make_shared<Node>(n);
  if (!integer) {
    if (constant(at.a_scale).size() != 1) why = "a scale for each row";
    q.scales = quantized_floats(constant(at.b_scale));
    if (q.scales.size() != 1 && static_cast<int64_t>(q.scales.size()) != columns) why = "scales that are not one for each column";
    float scale = quantized_floats(constant(at.a_scale))[0];
    if (n.op == "QGemm") scale *= n.get_float("alpha", 1.0f);
    for (float& s : q.scales) s *= scale;
    if (gives_f32) {
      node->program = expr::conversion(DType::f32, DType::f32);
    } else if (n.domain != smelt_domain) {
      if (constant(at.y_scale).size() != 1) why = "a scale of the result for each row";
      const float y_scale = quantized_floats(constant(at.y_scale))[0];
      for (float& s : q.scales) s /= y_scale;
      node->program = round_and_saturate(b.outputs[0].type, left_out(at.y_zero) ? 0 : quantized_integers(constant(at.y_zero))[0]);
    } else if (!node->program) {
      node->program = expr::conversion(DType::f32, b.outputs[0].type);
    }
  }
  if (!why.empty()) return std::nullopt;
  p.node = node;
  p.bound.node = p.node.get();
  p.problem.quantization = std::move(q);
  return p;
}

std::optional<std::string> rejects_int8(const Product& p) {
  if (!igemm::supported()) return "this CPU has no AVX2";
  if (auto why = refuses_sums(p.bound.inputs[p.a].type, p.bound.inputs[p.b].type, p.problem.k)) return why;
  for (const auto* tensors : {&p.bound.inputs, &p.bound.outputs})
    for (const BoundTensor& t : *tensors)
      if (t.type != DType::undefined && (t.layout != Layout::plain || !is_dense(t)))
        return "a tensor that is not dense and row-major";
  if (!p.bound.inputs[p.b].constant.valid()) return "the right operand is not constant";
  if (p.a_column != 1) return "the left operand is transposed";
  if (!p.problem.b_batch.empty()) return "the right operand has a batch of its own";
  if (elements(p.bound.outputs[0].shape) == 0 || p.problem.k == 0) return "an empty product";
  if (p.bound.inputs.size() - p.operands > 14) return "more than 14 operands";
  return std::nullopt;
}

}  // namespace smelt::ops::matmul
