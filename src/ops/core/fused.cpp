#include "ops/core/fused.h"

#include "base/error.h"
#include "ops/core/program.h"

namespace smelt::ops {

DType program_type(const Node& n, DType otherwise) {
  return n.program && !n.program->outputs().empty() ? n.program->type(n.program->outputs()[0]) : otherwise;
}

Tensor run_epilogue(const ComputeContext& c, const Tensor& in0, size_t first, DType type) {
  if (!c.node.program) return in0.cast(type);
  std::vector<Tensor> inputs = {in0};
  for (size_t i = first; i < c.inputs.size(); ++i) inputs.push_back(c.in(i));
  return evaluate_program(*c.node.program, inputs, in0.shape())[0];
}

void check_operands(const InferContext& c, size_t first, const Shape& shape) {
  for (size_t i = first; i < c.inputs.size(); ++i) {
    if (!c.inputs[i].shape_known) continue;
    const auto both = broadcast(c.inputs[i].shape, shape);
    if (!both || *both != shape)
      fail("operand {} (input {}) has shape {}, which does not broadcast to the result's {}", i - first, i,
           to_string(c.inputs[i].shape), to_string(shape));
  }
}

Node plain_node(std::string op, size_t inputs, std::map<std::string, Attribute> attrs) {
  Node n;
  n.op = std::move(op);
  for (size_t i = 0; i < inputs; ++i) n.inputs.push_back(ValueId(i));
  n.outputs = {ValueId(inputs)};
  n.attrs = std::move(attrs);
  return n;
}

std::optional<Shape> inferred_shape(const Node& node, std::span<const TensorDesc> inputs) {
  for (const TensorDesc& d : inputs)
    if (!d.shape_known) return std::nullopt;
  TensorDesc out;
  infer(node, inputs, {&out, 1});
  return out.shape_known ? std::optional(out.shape) : std::nullopt;
}

void set_result(InferContext& c, DType type, const std::optional<Shape>& shape, size_t first) {
  if (!shape) return c.set_type(0, type);
  check_operands(c, first, *shape);
  c.set(0, type, *shape);
}

TensorDesc as_f32(const TensorDesc& d) { return {DType::f32, d.shape, d.shape_known, nullptr}; }

}  // namespace smelt::ops
