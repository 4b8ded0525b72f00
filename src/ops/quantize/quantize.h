// Quantization's pieces that several operators use.
#pragma once

#include <string_view>
#include <vector>

#include "ops/core/operator.h"

namespace smelt::ops {

/// Copies bytes into an allocated output of the same type and size.
void copy_into(const Tensor& from, Tensor& to);

/// DynamicQuantizeLinear of a whole tensor: u8 values, x ≈ (values - zero_point) * scale.
struct DynamicQuantized {
  Tensor values;
  float scale = 1;
  uint8_t zero_point = 0;
};
DynamicQuantized dynamic_quantize(const Tensor& x);

void infer_quantize(InferContext& c);
void run_quantize(ComputeContext& c);
void infer_dequantize(InferContext& c);
void run_dequantize(ComputeContext& c);
void infer_dynamic_quantize(InferContext& c);
void run_dynamic_quantize(ComputeContext& c);

/// The tensor that DequantizeLinear makes in f32 of a quantized tensor with one scale and zero point (may be left out).
Tensor dequantized(const Tensor& x, const Tensor& scale, const Tensor& zero_point);
/// QuantizeLinear of an f32 tensor with one scale and zero point, into an allocated output.
void quantize_into(const Tensor& x, const Tensor& scale, const Tensor& zero_point, Tensor& y);

/// QLinearAdd and the like: dequantize, the plain operator in f32, quantize.
void infer_qlinear(InferContext& c);
void run_qlinear(ComputeContext& c);

/// One of ONNX Runtime's QLinear forms: each operand has its scale and zero point behind it, and so has the result.
struct QLinearForm {
  std::string_view op, plain;
  size_t unquantized = 0;  // leading inputs that are passed on as they are (Where's condition)
  size_t first = 0;        // the first quantized operand
  size_t result = 3;       // the result's scale; its zero point is behind it

  /// Positions of the quantized operands; none where the inputs are not whole.
  std::vector<size_t> operands(size_t inputs) const;
};
/// Null for other nodes.
const QLinearForm* qlinear_form(const Node& node);

}  // namespace smelt::ops
