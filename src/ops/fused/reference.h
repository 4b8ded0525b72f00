// Shape rules and references of the fused operators, and what they share. References compute in the accumulator's type: double
// for f64, float for every other float type.
#pragma once

#include "ops/core/operator.h"

namespace smelt::ops {

void infer_fused_conv(InferContext& c);
void run_fused_conv(ComputeContext& c);
void infer_fused_qlinear_conv(InferContext& c);
void run_fused_qlinear_conv(ComputeContext& c);
void infer_fused_matmul(InferContext& c);
void run_fused_matmul(ComputeContext& c);
void infer_fused_qlinear_matmul(InferContext& c);
void run_fused_qlinear_matmul(ComputeContext& c);
void infer_norm(InferContext& c);
void run_norm(ComputeContext& c);
void infer_attention(InferContext& c);
void run_attention(ComputeContext& c);
void infer_fused_rotary(InferContext& c);
void run_fused_rotary(ComputeContext& c);
void infer_pointwise(InferContext& c);
void run_pointwise(ComputeContext& c);
void infer_reduce(InferContext& c);
void run_reduce(ComputeContext& c);

/// The type of a fused node's result: its program's, or `otherwise` where it has none.
DType program_type(const Node& n, DType otherwise);
/// The node's program over its own result and the operands from input `first` on, in the shape of in0; in0 cast to `type`
/// without a program.
Tensor run_epilogue(const ComputeContext& c, const Tensor& in0, size_t first, DType type);
/// Throws unless every operand from input `first` on broadcasts to `shape`. Unknown shapes pass.
void check_operands(const InferContext& c, size_t first, const Shape& shape);

/// An ONNX node of this name and these attributes, with `inputs` present inputs and one output, to infer or evaluate.
Node plain_node(std::string op, size_t inputs, std::map<std::string, Attribute> attrs = {});

}  // namespace smelt::ops
