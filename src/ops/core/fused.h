// What the rules and references of the ai.smelt operators share. References compute in the accumulator's type: double for f64,
// float for every other float type.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "ops/core/operator.h"

namespace smelt::ops {

/// The type of a fused node's result: its program's, or `otherwise` where it has none.
DType program_type(const Node& n, DType otherwise);
/// The node's program over its own result and the operands from input `first` on, in the shape of in0; in0 cast to `type`
/// without a program.
Tensor run_epilogue(const ComputeContext& c, const Tensor& in0, size_t first, DType type);
/// Throws unless every operand from input `first` on broadcasts to `shape`. Unknown shapes pass.
void check_operands(const InferContext& c, size_t first, const Shape& shape);
/// Sets output 0 to `type` and, where it is known, `shape`, to which the operands from input `first` on must broadcast.
void set_result(InferContext& c, DType type, const std::optional<Shape>& shape, size_t first);

/// An ONNX node of this name and these attributes, with `inputs` present inputs and one output, to infer or evaluate.
Node plain_node(std::string op, size_t inputs, std::map<std::string, Attribute> attrs = {});
/// The shape that `node`, an ONNX operator over inputs of f32, gives; nothing where an input's shape is not known.
std::optional<Shape> inferred_shape(const Node& node, std::span<const TensorDesc> inputs);
/// A tensor of f32 in the shape of `d`.
TensorDesc as_f32(const TensorDesc& d);

}  // namespace smelt::ops
