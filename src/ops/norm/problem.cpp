#include "ops/norm/problem.h"

#include <fmt/core.h>

#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/rows/rows.h"

namespace smelt::ops {
namespace {

constexpr size_t none = NormParts::none;

size_t present(const std::vector<BoundTensor>& tensors, size_t i) {
  return i < tensors.size() && tensors[i].type != DType::undefined ? i : none;
}

}  // namespace

NormParts::NormParts(const BoundNode& b) {
  const Node& n = *b.node;
  const bool fused = n.domain == smelt_domain;
  epsilon = n.get_float("epsilon", 1e-5f);
  axis = static_cast<size_t>(normalize_axis(n.get_int("axis", -1), static_cast<int64_t>(b.inputs[0].shape.size())));
  centre = fused ? n.get_string("kind", "") == "layer" : n.op == "LayerNormalization";
  if (fused) residual = present(b.inputs, 1);
  gamma = present(b.inputs, fused ? 2 : 1);
  beta = present(b.inputs, fused ? 3 : 2);
  if (fused)
    first_operand = 4, sum = present(b.outputs, 1);
  else
    mean = present(b.outputs, 1), inverse = present(b.outputs, 2);
}

std::optional<expr::Program> norm_program(const BoundNode& b, const NormParts& p, bool with_parameters,
                                          std::vector<size_t>& operands) {
  const Node& n = *b.node;
  if (!n.program && !with_parameters) return std::nullopt;
  expr::Program out;
  expr::Ref y = out.input(DType::f32);
  std::vector<std::pair<size_t, expr::Ref>> inputs;
  auto add_input = [&](size_t i) {
    operands.push_back(i);
    inputs.emplace_back(i, out.input(b.inputs[i].type));
  };
  if (with_parameters)
    for (size_t i : {p.gamma, p.beta})
      if (i != none) add_input(i);
  const size_t parameters = inputs.size();
  for (size_t i = p.first_operand; i < b.inputs.size(); ++i) add_input(i);
  for (size_t i = 0; i < parameters; ++i)
    y = out.call(inputs[i].first == p.gamma ? expr::Fn::mul : expr::Fn::add, y, out.cast(inputs[i].second, DType::f32));
  if (n.program) {
    std::vector<expr::Ref> args = {y};
    for (size_t i = parameters; i < inputs.size(); ++i) args.push_back(inputs[i].second);
    y = out.splice(*n.program, args)[0];
  }
  out.output(out.cast(y, b.outputs[0].type));
  return out;
}

std::optional<Refusal> norm_unknown(const BoundNode& b) {
  const DType type = b.inputs[0].type;
  if (!float_kind(type)) return refuse(Reason::wrong_type, "its type is {}; expected f32, f16 or bf16", name(type));
  const NormParts p(b);
  for (size_t i : {p.residual, p.gamma, p.beta})
    if (i != none && !float_kind(b.inputs[i].type))
      return refuse(Reason::wrong_type, "input {} is {}; expected f32, f16 or bf16", i, name(b.inputs[i].type));
  if (p.residual != none && b.inputs[p.residual].type != type)
    return refuse(Reason::wrong_type, "x and the residual differ in type");
  if (p.residual != none && b.inputs[p.residual].shape != b.inputs[0].shape)
    return refuse(Reason::wrong_shape, "the residual is broadcast");
  if (!b.node->program && !float_kind(b.outputs[0].type))
    return refuse(Reason::wrong_type, "its result is {}; expected f32, f16 or bf16", name(b.outputs[0].type));
  if (b.node->domain.empty() && b.node->get_int("stash_type", 1) != 1)
    return refuse(Reason::wrong_attribute, "it computes in another type than f32");
  return std::nullopt;
}

std::optional<Refusal> norm_rows_apart(const BoundNode& b) {
  const NormParts p(b);
  std::vector<Shape> strides = {memory_strides(b.inputs[0]), memory_strides(b.outputs[0])};
  if (p.residual != none) strides.push_back(memory_strides(b.inputs[p.residual]));
  if (p.sum != none) strides.push_back(memory_strides(b.outputs[p.sum]));
  const RowViews views(b.inputs[0].shape, p.axis, strides);
  for (size_t k = 0; k < strides.size(); ++k)
    if (views.stride(k) != 1 && views.width() > 1) return refuse(Reason::wrong_layout, "the elements of a row are apart");
  return std::nullopt;
}

}  // namespace smelt::ops
