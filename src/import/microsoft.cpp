// The common operators of com.microsoft (ONNX Runtime's contributed ones) for ONNX's registry: their inputs' and outputs'
// types and shapes, as ONNX Runtime documents them in docs/ContribOperators.md.
#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>

#include <mutex>

#include "import/stages.h"

namespace smelt::importer {

namespace {

using onnx::InferenceContext;
using onnx::OpSchema;
using onnx::TensorShapeProto;

bool has_shape(InferenceContext& c, size_t i) { return onnx::hasInputShape(c, i); }
const TensorShapeProto& shape(InferenceContext& c, size_t i) { return onnx::getInputShape(c, i); }

void like_first(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
  onnx::propagateShapeFromInputToOutput(c, 0, 0);
}

// Every output of these has the shape and type of the first input where it is read as y or as the sum; the mean and the
// inverse deviation in between are for training and are left without a shape.
void skip_norm(InferenceContext& c) {
  like_first(c);
  for (size_t i : {size_t{1}, size_t{2}})
    if (i < c.getNumOutputs()) onnx::updateOutputElemType(c, i, onnx::TensorProto::FLOAT);
  if (c.getNumOutputs() > 3) {
    onnx::propagateElemTypeFromInputToOutput(c, 0, 3);
    onnx::propagateShapeFromInputToOutput(c, 0, 3);
  }
}

void broadcast_shapes(InferenceContext& c, size_t a, size_t b) {
  if (has_shape(c, a) && has_shape(c, b))
    onnx::bidirectionalBroadcastShapeInference(shape(c, a), shape(c, b),
                                               *c.getOutputType(0)->mutable_tensor_type()->mutable_shape());
}

// [.., M, K] x [.., K, N] with both transposed if asked; batches broadcast.
void matmul_shape(InferenceContext& c, size_t a, size_t b, bool trans_a, bool trans_b) {
  if (!has_shape(c, a) || !has_shape(c, b)) return;
  const TensorShapeProto &x = shape(c, a), &y = shape(c, b);
  const int rx = x.dim_size(), ry = y.dim_size();
  if (rx < 2 || ry < 2) return;
  TensorShapeProto batch_x, batch_y, out;
  for (int i = 0; i < rx - 2; ++i) *batch_x.add_dim() = x.dim(i);
  for (int i = 0; i < ry - 2; ++i) *batch_y.add_dim() = y.dim(i);
  onnx::bidirectionalBroadcastShapeInference(batch_x, batch_y, out);
  *out.add_dim() = x.dim(rx - (trans_a ? 1 : 2));
  *out.add_dim() = y.dim(ry - (trans_b ? 2 : 1));
  *c.getOutputType(0)->mutable_tensor_type()->mutable_shape() = out;
}

void fused_matmul(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
  if (onnx::getAttribute(c, "transBatchA", 0) || onnx::getAttribute(c, "transBatchB", 0)) return;
  matmul_shape(c, 0, 1, onnx::getAttribute(c, "transA", 0) != 0, onnx::getAttribute(c, "transB", 0) != 0);
}

void gemm_shape(InferenceContext& c, size_t a, size_t b) {
  if (!has_shape(c, a) || !has_shape(c, b) || shape(c, a).dim_size() != 2 || shape(c, b).dim_size() != 2) return;
  matmul_shape(c, a, b, onnx::getAttribute(c, "transA", 0) != 0, onnx::getAttribute(c, "transB", 0) != 0);
}

void fused_gemm(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
  gemm_shape(c, 0, 1);
}

void fused_conv(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
  onnx::convPoolShapeInference(c, true, false, 0, 1);
}

// QLinearAdd, QLinearMul: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero
void qlinear_binary(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
  broadcast_shapes(c, 0, 3);
}

// a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero; without y's scale the output is f32
void qgemm(InferenceContext& c) {
  const bool quantized = c.getNumInputs() > 7 && c.getInputType(7) != nullptr;
  if (quantized) onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
  else onnx::propagateElemTypeFromInputToOutput(c, 1, 0);
  gemm_shape(c, 0, 3);
}

void qlinear_pool(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
  if (onnx::getAttribute(c, "channels_last", 0) == 0) onnx::convPoolShapeInference(c, false, true, 0, 5);
}

void qlinear_global_pool(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
  if (!has_shape(c, 0)) return;
  const bool last = onnx::getAttribute(c, "channels_last", 0) != 0;
  TensorShapeProto out = shape(c, 0);
  for (int i = last ? 1 : 2; i < out.dim_size() - (last ? 1 : 0); ++i) out.mutable_dim(i)->set_dim_value(1);
  *c.getOutputType(0)->mutable_tensor_type()->mutable_shape() = out;
}

// y_scale, y_zero, then (x, x_scale, x_zero) for each part
void qlinear_concat(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 1, 0);
  if (c.getNumInputs() < 5 || !has_shape(c, 2)) return;
  TensorShapeProto out = shape(c, 2);
  const auto axis = onnx::getAttribute(c, "axis", 0);
  const int at = static_cast<int>(axis < 0 ? axis + out.dim_size() : axis);
  if (at < 0 || at >= out.dim_size()) fail_shape_inference("axis is outside the rank");
  for (size_t i = 5; i < c.getNumInputs(); i += 3) {
    auto* d = out.mutable_dim(at);
    const bool known =
        has_shape(c, i) && shape(c, i).dim_size() == out.dim_size() && shape(c, i).dim(at).has_dim_value() && d->has_dim_value();
    if (known)
      d->set_dim_value(
          static_cast<int64_t>(static_cast<uint64_t>(d->dim_value()) + static_cast<uint64_t>(shape(c, i).dim(at).dim_value())));
    else d->clear_value();
  }
  *c.getOutputType(0)->mutable_tensor_type()->mutable_shape() = out;
}

// a, b, a_scale, b_scale, a_zero, b_zero, bias → float
void matmul_integer_to_float(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 2, 0);
  matmul_shape(c, 0, 1, false, false);
}

void dynamic_quantize_matmul(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
  matmul_shape(c, 0, 1, false, false);
}

void quantize(InferenceContext& c) {
  if (c.getNumInputs() > 2 && c.getInputType(2)) onnx::propagateElemTypeFromInputToOutput(c, 2, 0);
  else onnx::updateOutputElemType(c, 0, onnx::TensorProto::UINT8);
  onnx::propagateShapeFromInputToOutput(c, 0, 0);
}

void dequantize(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 1, 0);
  onnx::propagateShapeFromInputToOutput(c, 0, 0);
}

struct Row {
  const char* op;
  int min_inputs, max_inputs, max_outputs;
  void (*infer)(InferenceContext&);
};

constexpr int any = 1 << 20;
constexpr Row rows[] = {
    {"BiasGelu", 2, 2, 1, like_first},
    {"DequantizeLinear", 2, 3, 1, dequantize},
    {"DynamicQuantizeMatMul", 3, 5, 1, dynamic_quantize_matmul},
    {"FastGelu", 1, 2, 1, like_first},
    {"FusedConv", 2, 4, 1, fused_conv},
    {"FusedGemm", 2, 3, 1, fused_gemm},
    {"FusedMatMul", 2, 2, 1, fused_matmul},
    {"Gelu", 1, 1, 1, like_first},
    {"MatMulIntegerToFloat", 4, 7, 1, matmul_integer_to_float},
    {"QGemm", 6, 9, 1, qgemm},
    {"QLinearAdd", 7, 8, 1, qlinear_binary},
    {"QLinearAveragePool", 4, 5, 1, qlinear_pool},
    {"QLinearConcat", 5, any, 1, qlinear_concat},
    {"QLinearGlobalAveragePool", 5, 5, 1, qlinear_global_pool},
    {"QLinearLeakyRelu", 4, 5, 1, like_first},
    {"QLinearMul", 7, 8, 1, qlinear_binary},
    {"QLinearSigmoid", 4, 5, 1, like_first},
    {"QLinearSoftmax", 4, 5, 1, like_first},
    {"QuantizeLinear", 2, 3, 1, quantize},
    {"QuickGelu", 1, 1, 1, like_first},
    {"RotaryEmbedding", 4, 4, 1, like_first},
    {"SkipLayerNormalization", 3, 5, 4, skip_norm},
    {"SkipSimplifiedLayerNormalization", 3, 4, 4, skip_norm},
};

// Each parameter has a type of its own: the rules above say which ones agree. Any but the first and the last that is needed may
// be left out, as the zero points in the middle of the QLinear operators' lists may.
OpSchema schema_of(const Row& row) {
  OpSchema schema(row.op, __FILE__, __LINE__);
  schema.SetDomain("com.microsoft").SinceVersion(1).AllowUncheckedAttributes().TypeAndShapeInferenceFunction(row.infer);
  auto type = [&](const std::string& name) {
    schema.TypeConstraint(name, OpSchema::all_tensor_types_ir13(), "");
    return name;
  };
  const int listed = row.max_inputs == any ? row.min_inputs - 1 : row.max_inputs;
  for (int i = 0; i < listed; ++i) {
    const bool needed = i == 0 || i == row.min_inputs - 1;
    const std::string n = std::to_string(i);
    schema.Input(i, "in" + n, "", type("T" + n), needed ? OpSchema::Single : OpSchema::Optional);
  }
  if (row.max_inputs == any) schema.Input(listed, "more", "", type("Tmore"), OpSchema::Variadic, /*is_homogeneous=*/false);
  for (int i = 0; i < row.max_outputs; ++i) {
    const std::string n = std::to_string(i);
    schema.Output(i, "out" + n, "", type("U" + n), i == 0 ? OpSchema::Single : OpSchema::Optional);
  }
  return schema;
}

}  // namespace

void register_microsoft_schemas() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto& versions = onnx::OpSchemaRegistry::DomainToVersionRange::Instance();
    if (!versions.Map().contains("com.microsoft")) versions.AddDomainToVersion("com.microsoft", 1, 1);
    for (const Row& row : rows) onnx::RegisterSchema(schema_of(row), 0, true, true);
  });
}

}  // namespace smelt::importer
