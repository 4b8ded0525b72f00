#include "ops/matmul/int8_problem.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "expr/simd/isa.h"
#include "ops/core/quantized_program.h"
#include "ops/core/strides.h"
#include "ops/cpu/epilogue.h"
#include "ops/cpu/igemm/igemm.h"
#include "ops/matmul/simd/int8_sums.h"

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

Result<Product> int8_product(const BoundNode& b) {
  const Node& n = *b.node;
  const Positions at = positions(n);
  const auto left_out = [&](size_t i) { return i >= b.inputs.size() || b.inputs[i].type == DType::undefined; };
  const auto constant = [&](size_t i) { return left_out(i) ? Tensor{} : b.inputs[i].constant; };
  const bool integer = n.op == "MatMulInteger", gives_f32 = n.op == "QGemm" && left_out(at.y_scale);
  for (size_t i : {at.a_scale, at.b_scale, at.bias, at.y_scale, at.y_zero})
    if (i != absent && !left_out(i) && !constant(i).valid()) return refuse(Reason::not_constant, "a parameter is not constant");
  if (!left_out(at.b_zero) && !constant(at.b_zero).valid() && !integer)
    return refuse(Reason::not_constant, "the right operand's zero point is not constant");
  if (!left_out(at.a_zero) && !constant(at.a_zero).valid() && !integer && n.domain != smelt_domain)
    return refuse(Reason::not_constant, "the left operand's zero point is not constant");
  if (b.inputs[at.a].shape.size() < 2 || b.inputs[at.b].shape.size() < 2)
    return refuse(Reason::wrong_rank, "an operand is a vector");

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
    return refuse(Reason::wrong_shape, "{} zero points of the left operand; it takes one", elements(b.inputs[at.a_zero].shape));
  if (left_out(at.b_zero))
    q.b_zeros = {0};
  else if (constant(at.b_zero).valid())
    q.b_zeros = quantized_integers(constant(at.b_zero));
  else if (elements(b.inputs[at.b_zero].shape) == 1)
    q.b_zeros = {0}, q.b_zero_input = at.b_zero;
  else
    return refuse(Reason::wrong_shape, "{} computed zero points of the right operand; it takes one",
                  elements(b.inputs[at.b_zero].shape));
  if (q.b_zeros.size() != 1 && static_cast<int64_t>(q.b_zeros.size()) != columns)
    return refuse(Reason::wrong_shape, "{} zero points for {} columns", q.b_zeros.size(), columns);
  if (!left_out(at.bias)) {
    const auto bias = by_column(b.inputs[at.bias], columns);
    if (!bias)
      return refuse(Reason::wrong_shape, "a bias of shape {}; it takes one number for each of {} columns",
                    to_string(b.inputs[at.bias].shape), columns);
    q.bias = *bias;
  }
  auto node = std::make_shared<Node>(n);
  if (!integer) {
    if (const int64_t count = constant(at.a_scale).size(); count != 1)
      return refuse(Reason::wrong_shape, "{} scales of the left operand; it takes one", count);
    q.scales = quantized_floats(constant(at.b_scale));
    if (q.scales.size() != 1 && static_cast<int64_t>(q.scales.size()) != columns)
      return refuse(Reason::wrong_shape, "{} scales for {} columns", q.scales.size(), columns);
    float scale = quantized_floats(constant(at.a_scale))[0];
    if (n.op == "QGemm") scale *= n.get_float("alpha", 1.0f);
    for (float& s : q.scales) s *= scale;
    if (gives_f32) {
      node->program = expr::conversion(DType::f32, DType::f32);
    } else if (n.domain != smelt_domain) {
      if (const int64_t count = constant(at.y_scale).size(); count != 1)
        return refuse(Reason::wrong_shape, "{} scales of the result; it takes one", count);
      const float y_scale = quantized_floats(constant(at.y_scale))[0];
      for (float& s : q.scales) s /= y_scale;
      node->program = round_and_saturate(b.outputs[0].type, left_out(at.y_zero) ? 0 : quantized_integers(constant(at.y_zero))[0]);
    } else if (!node->program) {
      node->program = expr::conversion(DType::f32, b.outputs[0].type);
    }
  }
  p.node = node;
  p.bound.node = p.node.get();
  p.problem.quantization = std::move(q);
  return p;
}

std::optional<Refusal> rejects_int8_tensors(const Product& p, bool wraps) {
  if (!igemm::supported()) return refuse(Reason::wrong_machine, "this CPU has no AVX2");
  if (auto why = rejects_sums(p.bound.inputs[p.a].type, p.bound.inputs[p.b].type, wraps ? 1 : p.problem.k)) return why;
  if (auto why = rejects_layouts(p.bound)) return why;
  if (elements(p.bound.outputs[0].shape) == 0 || p.problem.k == 0) return refuse(Reason::wrong_shape, "an empty product");
  return rejects_operands(p.bound.inputs.size() - p.operands);
}

std::optional<Refusal> rejects_int8(const Product& p, bool wraps) {
  if (auto why = rejects_int8_tensors(p, wraps)) return why;
  if (!p.bound.inputs[p.b].constant.valid()) return refuse(Reason::not_constant, "the right operand is not constant");
  if (p.quantization().b_zero_input) return refuse(Reason::not_constant, "the right operand's zero point is not constant");
  if (p.a_column != 1) return refuse(Reason::wrong_layout, "the left operand is transposed");
  if (!p.problem.b_batch.empty()) return refuse(Reason::wrong_shape, "the right operand has a batch of its own");
  return std::nullopt;
}

const Int8SumsTable& int8_sums_table() { return simd::best() == simd::Isa::avx2 ? avx2::int8_sums() : base::int8_sums(); }

}  // namespace smelt::ops::matmul
