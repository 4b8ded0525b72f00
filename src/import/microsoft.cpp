// The common operators of com.microsoft (ONNX Runtime's contributed ones): their inputs' and outputs' types and shapes, as ONNX
// Runtime documents them in docs/ContribOperators.md.
#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>

#include <algorithm>
#include <set>

#include "import/microsoft.h"
#include "import/stages.h"

namespace smelt::importer {

namespace {

using onnx::InferenceContext;
using onnx::OpSchema;
using onnx::TensorShapeProto;

bool has_shape(InferenceContext& c, size_t i) { return onnx::hasInputShape(c, i); }
const TensorShapeProto& shape(InferenceContext& c, size_t i) { return onnx::getInputShape(c, i); }

/// The shape of an input, where its type is known: ONNX's own propagateShapeFromInputToOutput reads a type that is not there.
void copy_shape(InferenceContext& c, size_t from, size_t to) {
  if (has_shape(c, from)) onnx::propagateShapeFromInputToOutput(c, from, to);
}

void like_first(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
  copy_shape(c, 0, 0);
}

/// Fails where two extents that have to agree are known to differ.
void same_extent(const TensorShapeProto::Dimension& a, const TensorShapeProto::Dimension& b, const char* what) {
  if (a.has_dim_value() && b.has_dim_value() && a.dim_value() != b.dim_value())
    fail_shape_inference(what, ": extents ", a.dim_value(), " and ", b.dim_value(), " differ");
}

// Every output of these has the shape and type of the first input where it is read as y or as the sum; the mean and the
// inverse deviation in between are for training and are left without a shape.
void skip_norm(InferenceContext& c) {
  like_first(c);
  if (has_shape(c, 0) && has_shape(c, 2)) {
    const TensorShapeProto &x = shape(c, 0), &gamma = shape(c, 2);
    if (x.dim_size() == 0 || gamma.dim_size() != 1) fail_shape_inference("the scale has to be a vector");
    same_extent(x.dim(x.dim_size() - 1), gamma.dim(0), "the last axis and the scale");
  }
  for (size_t i : {size_t{1}, size_t{2}})
    if (i < c.getNumOutputs()) onnx::updateOutputElemType(c, i, onnx::TensorProto::FLOAT);
  if (c.getNumOutputs() > 3) {
    onnx::propagateElemTypeFromInputToOutput(c, 0, 3);
    copy_shape(c, 0, 3);
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
  same_extent(x.dim(rx - (trans_a ? 2 : 1)), y.dim(ry - (trans_b ? 1 : 2)), "the extent that a matrix product sums over");
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
  if (!has_shape(c, a) || !has_shape(c, b)) return;
  if (shape(c, a).dim_size() != 2 || shape(c, b).dim_size() != 2) fail_shape_inference("both factors have to be matrices");
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

// condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero
void qlinear_where(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 1, 0);
  if (has_shape(c, 0) && has_shape(c, 1) && has_shape(c, 4))
    onnx::multidirectionalBroadcastShapeInference({&shape(c, 0), &shape(c, 1), &shape(c, 4)},
                                                  *c.getOutputType(0)->mutable_tensor_type()->mutable_shape());
}

// a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero; without y's scale the output is f32
void qgemm(InferenceContext& c) {
  const bool quantized = c.getNumInputs() > 7 && c.getInputType(7) != nullptr;
  if (quantized)
    onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
  else
    onnx::propagateElemTypeFromInputToOutput(c, 1, 0);
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
    else
      d->clear_value();
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

// x, w, r, b?, sequence_lens?, initial_h?, initial_c?, p?, w_scale, w_zero?, r_scale, r_zero? → y, y_h, y_c. w [directions, input, 4 *
// hidden] and r [directions, hidden, 4 * hidden] lie transposed.
void dynamic_quantize_lstm(InferenceContext& c) {
  for (size_t i = 0; i < c.getNumOutputs(); ++i) onnx::propagateElemTypeFromInputToOutput(c, 0, i);
  if (!has_shape(c, 0) || !has_shape(c, 2)) return;
  const TensorShapeProto &x = shape(c, 0), &r = shape(c, 2);
  if (x.dim_size() != 3 || r.dim_size() != 3) fail_shape_inference("X and R have to be of rank 3");
  const TensorShapeProto::Dimension &steps = x.dim(0), &batch = x.dim(1), &directions = r.dim(0), &hidden = r.dim(1);
  const auto set = [&](size_t i, std::initializer_list<const TensorShapeProto::Dimension*> dims) {
    if (i >= c.getNumOutputs()) return;
    TensorShapeProto out;
    for (const auto* d : dims) *out.add_dim() = *d;
    *c.getOutputType(i)->mutable_tensor_type()->mutable_shape() = out;
  };
  set(0, {&steps, &directions, &batch, &hidden});
  set(1, {&directions, &batch, &hidden});
  set(2, {&directions, &batch, &hidden});
}

// input [B, S, K], weights [K, 3 * H] or [K, q + k + v] → y [B, S, v], present
template <int type> void attention_shape(InferenceContext& c) {
  for (size_t i = 0; i < c.getNumOutputs(); ++i) onnx::propagateElemTypeFromInputToOutput(c, type, i);
  if (!has_shape(c, 0) || !has_shape(c, 1) || shape(c, 0).dim_size() != 3 || shape(c, 1).dim_size() != 2) return;
  TensorShapeProto out = shape(c, 0);
  auto* width = out.mutable_dim(2);
  const auto* sizes = c.getAttribute("qkv_hidden_sizes");
  width->Clear();
  if (sizes && sizes->ints_size() == 3)
    width->set_dim_value(sizes->ints(2));
  else if (shape(c, 1).dim(1).has_dim_value())
    width->set_dim_value(shape(c, 1).dim(1).dim_value() / 3);
  *c.getOutputType(0)->mutable_tensor_type()->mutable_shape() = out;
}

// query [B, S, H], or with keys and values beside it in [B, S, heads, 3, D]; value [B, L, V] or [B, heads, L, D]
void multi_head_attention_shape(InferenceContext& c) {
  for (size_t i = 0; i < c.getNumOutputs(); ++i) onnx::propagateElemTypeFromInputToOutput(c, 0, i);
  if (!has_shape(c, 0) || shape(c, 0).dim_size() < 3) return;
  TensorShapeProto out;
  *out.add_dim() = shape(c, 0).dim(0);
  *out.add_dim() = shape(c, 0).dim(1);
  auto* width = out.add_dim();
  const bool has_value = c.getNumInputs() > 2 && has_shape(c, 2);
  if (has_value && shape(c, 2).dim_size() == 3)
    *width = shape(c, 2).dim(2);
  else if (shape(c, 0).dim_size() == 3 && !has_value)
    *width = shape(c, 0).dim(2);
  *c.getOutputType(0)->mutable_tensor_type()->mutable_shape() = out;
}

// query [B, S, heads * D], or with keys and values behind it
void group_query_attention_shape(InferenceContext& c) {
  for (size_t i = 0; i < c.getNumOutputs(); ++i)
    onnx::propagateElemTypeFromInputToOutput(c, i == 1 || i == 2 ? (c.getInputType(3) ? 3 : 0) : 0, i);
  if (!has_shape(c, 0) || shape(c, 0).dim_size() != 3) return;
  TensorShapeProto out = shape(c, 0);
  const int64_t heads = onnx::getAttribute(c, "num_heads", 0), kv_heads = onnx::getAttribute(c, "kv_num_heads", 0);
  if (c.getInputType(1) == nullptr && heads > 0 && kv_heads >= 0 && out.dim(2).has_dim_value())
    out.mutable_dim(2)->set_dim_value(out.dim(2).dim_value() / (heads + 2 * kv_heads) * heads);
  *c.getOutputType(0)->mutable_tensor_type()->mutable_shape() = out;
}

// ids [B, S] and a table [words, H] at input 2 → [B, S, H], [B], [B, S, H]
template <int type> void embed_shape(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, type, 0);
  if (c.getNumOutputs() > 1) onnx::updateOutputElemType(c, 1, onnx::TensorProto::INT32);
  if (c.getNumOutputs() > 2) onnx::propagateElemTypeFromInputToOutput(c, type, 2);
  if (!has_shape(c, 0) || !has_shape(c, 2) || shape(c, 0).dim_size() != 2 || shape(c, 2).dim_size() != 2) return;
  TensorShapeProto out = shape(c, 0), batch;
  *batch.add_dim() = out.dim(0);
  *out.add_dim() = shape(c, 2).dim(1);
  for (const size_t i : {size_t{0}, size_t{2}})
    if (i < c.getNumOutputs()) *c.getOutputType(i)->mutable_tensor_type()->mutable_shape() = out;
  if (c.getNumOutputs() > 1) *c.getOutputType(1)->mutable_tensor_type()->mutable_shape() = batch;
}

void matmul_n_bits_shape(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
  if (!has_shape(c, 0) || shape(c, 0).dim_size() == 0) return;
  TensorShapeProto out = shape(c, 0);
  const int64_t n = onnx::getAttribute(c, "N", 0);
  if (n < 1) fail_shape_inference("N is ", n);
  out.mutable_dim(out.dim_size() - 1)->Clear();
  out.mutable_dim(out.dim_size() - 1)->set_dim_value(n);
  *c.getOutputType(0)->mutable_tensor_type()->mutable_shape() = out;
}

template <int type> void type_only(InferenceContext& c) { onnx::propagateElemTypeFromInputToOutput(c, type, 0); }

void type_only_twice(InferenceContext& c) {
  for (size_t i = 0; i < c.getNumOutputs(); ++i) onnx::propagateElemTypeFromInputToOutput(c, 0, i);
}

void like_second(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 1, 0);
  copy_shape(c, 1, 0);
}

void matmul_integer16(InferenceContext& c) {
  onnx::updateOutputElemType(c, 0, onnx::TensorProto::INT32);
  matmul_shape(c, 0, 1, false, false);
}

void murmur_hash(InferenceContext& c) {
  const bool positive = onnx::getAttribute(c, "positive", 1) != 0;
  onnx::updateOutputElemType(c, 0, positive ? onnx::TensorProto::UINT32 : onnx::TensorProto::INT32);
  copy_shape(c, 0, 0);
}

// costs [M, N] or [1, M, N] → the path's rows and columns [2, steps]
void dynamic_time_warping(InferenceContext& c) {
  onnx::updateOutputElemType(c, 0, onnx::TensorProto::INT32);
  TensorShapeProto out;
  out.add_dim()->set_dim_value(2);
  out.add_dim();
  *c.getOutputType(0)->mutable_tensor_type()->mutable_shape() = out;
}

// Both outputs are like the first input: the norm, and the sum that it is of.
void like_first_twice(InferenceContext& c) {
  like_first(c);
  if (c.getNumOutputs() < 2) return;
  onnx::propagateElemTypeFromInputToOutput(c, 0, 1);
  copy_shape(c, 0, 1);
}

// ONNX Runtime's own forms in ONNX's domain: outputs y and, for training, statistics in f32.
void layer_norm(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 1, 0);
  copy_shape(c, 0, 0);
  for (size_t i = 1; i < c.getNumOutputs(); ++i) onnx::updateOutputElemType(c, i, onnx::TensorProto::FLOAT);
}

// [C] or [N, C], and an axis of as many tokens as the longest string has
void tokenizer(InferenceContext& c) {
  like_first(c);
  if (has_shape(c, 0)) c.getOutputType(0)->mutable_tensor_type()->mutable_shape()->add_dim();
}

void quantize(InferenceContext& c) {
  if (c.getNumInputs() > 2 && c.getInputType(2))
    onnx::propagateElemTypeFromInputToOutput(c, 2, 0);
  else
    onnx::updateOutputElemType(c, 0, onnx::TensorProto::UINT8);
  copy_shape(c, 0, 0);
}

void dequantize(InferenceContext& c) {
  onnx::propagateElemTypeFromInputToOutput(c, 1, 0);
  copy_shape(c, 0, 0);
}

constexpr MicrosoftOperator rows[] = {
    {"Affine", "T:T", 1, like_first, ""},
    {"Attention", "TTTMTTM:TT", 2, attention_shape<0>},
    {"BiasAdd", "TTT:T", 3, like_first},
    {"BiasGelu", "TT:T", 2, like_first},
    {"BiasSoftmax", "TT:T", 2, like_first},
    {"BiasSplitGelu", "TT:T", 2, type_only<0>},
    {"CausalConvWithState", "TTTT:TT", 2, type_only_twice},
    {"ConvTransposeWithDynamicPads", "TTIT:T", 2, type_only<0>},
    {"Crop", "T:T", 1, type_only<0>, ""},
    {"CropAndResize", "TTII:T", 4, type_only<0>},
    {"DecoderMaskedMultiHeadAttention", "TTTMTTTMMMT:TTTT", 1, multi_head_attention_shape},
    {"DequantizeLinear", "QSQ:S", 2, dequantize},
    {"DynamicQuantizeLSTM", "TQQTLTTTTQTQ:TTT", 11, dynamic_quantize_lstm},
    {"DynamicQuantizeMatMul", "TQTQT:T", 3, dynamic_quantize_matmul},
    {"DynamicSlice", "TIII:T", 3, type_only<0>, ""},
    {"DynamicTimeWarping", "T:I", 1, dynamic_time_warping},
    {"EmbedLayerNormalization", "IITTTTTII:TMT", 7, embed_shape<2>},
    {"ExpandDims", "TA:T", 2, type_only<0>},
    {"FastGelu", "TT:T", 1, like_first},
    {"FusedConv", "TTTT:T", 2, fused_conv},
    {"FusedGemm", "TTT:T", 2, fused_gemm},
    {"FusedMatMul", "TT:T", 2, fused_matmul},
    {"GatedAdd", "TTT:T", 3, like_first},
    {"GatedRMSNorm", "TTT:T", 3, like_first},
    {"GatherBlockQuantized", "QISQ:S", 3, type_only<2>},
    {"GatherND", "TI:T", 2, type_only<0>},
    {"Gelu", "T:T", 1, like_first},
    {"GroupNorm", "TGG:T", 3, like_first},
    {"GroupQueryAttention", "T..CCMM..........:TCCT", 7, group_query_attention_shape},
    {"ImageScaler", "T:T", 1, like_first, ""},
    {"Inverse", "T:T", 1, like_first},
    {"LayerNormalization", "TVV:VUU", 2, layer_norm, ""},
    {"LinearAttention", "TTTSTT:TS", 3, type_only_twice},
    {"LinearAttentionGate", "TUUT:TT", 3, like_first_twice},
    {"MRotaryEmbedding", "TPTT:T", 4, like_first},
    {"MatMulInteger16", "ST:I", 2, matmul_integer16},
    {"MatMulIntegerToFloat", "ABSSABS:S", 4, matmul_integer_to_float},
    {"MatMulNBits", "TBTZGT:T", 3, matmul_n_bits_shape},
    {"MoE", "TTTTTTTT:T", 5, like_first},
    {"MultiHeadAttention", "TTTTMTTTMM:TTTT", 1, multi_head_attention_shape},
    {"MurmurHash3", "T:U", 1, murmur_hash},
    {"NGramRepeatBlock", "IT:T", 2, like_second},
    {"NhwcConv", "TTT:T", 2, type_only<0>},
    {"NhwcFusedConv", "TTTT:T", 2, type_only<0>},
    {"NhwcMaxPool", "T:T", 1, type_only<0>},
    {"Pad", "TIT:T", 2, type_only<0>},
    {"ParametricSoftplus", "T:T", 1, like_first, ""},
    {"QAttention", "ABTTTMABT:TT", 5, attention_shape<3>},
    {"QEmbedLayerNormalization", "IIQQQQQISSSSSQQQQQ:SM", 13, embed_shape<8>},
    {"QGemm", "ASABSB.S.:.", 6, qgemm},
    {"QLinearAdd", "TSTTSTST:T", 7, qlinear_binary},
    {"QLinearAveragePool", "TSTST:T", 4, qlinear_pool},
    {"QLinearConcat", "SQ..*:Q", 5, qlinear_concat},
    {"QLinearConv", "AS.BS.S.M:.", 8, type_only<7>},
    {"QLinearGlobalAveragePool", "TSTST:T", 5, qlinear_global_pool},
    {"QLinearLeakyRelu", "TSTST:T", 4, like_first},
    {"QLinearMul", "TSTTSTST:T", 7, qlinear_binary},
    {"QLinearReduceMean", "TSTST:T", 4, type_only<0>},
    {"QLinearSigmoid", "TSTST:T", 4, like_first},
    {"QLinearSoftmax", "TSTST:T", 4, like_first},
    {"QLinearWhere", "BTSTTSTST:T", 9, qlinear_where},
    {"QMoE", "TTQSTQSTQSTQQQTUUUUUU:T", 6, like_first},
    {"QuantizeLinear", "SSQ:Q", 2, quantize},
    {"QuickGelu", "T:T", 1, like_first},
    {"Range", "TTT:T", 2, type_only<0>},
    {"RotaryEmbedding", "TPTT:T", 4, like_first},
    {"SampleOp", "T:T", 1, like_first},
    {"Scale", "T:T", 1, like_first, ""},
    {"ScaledSiLU", "TM:T", 1, like_first},
    {"ScaledTanh", "T:T", 1, like_first, ""},
    {"SimplifiedLayerNormalization", "TV:VU", 2, layer_norm, ""},
    {"SkipGroupNorm", "TGGTT:TT", 4, like_first_twice},
    {"SkipLayerNormalization", "TTTTT:TUUT", 3, skip_norm},
    {"SkipSimplifiedLayerNormalization", "TTTT:TUUT", 3, skip_norm},
    {"ThresholdedRelu", "T:T", 1, like_first, ""},
    {"Tokenizer", "T:T", 1, tokenizer},
    {"TransposeMatMul", "TT:T", 2, fused_matmul},
    {"Trilu", "TK:T", 1, like_first},
    {"UnfoldTensor", "T:T", 1, type_only<0>},
};

}  // namespace

std::span<const MicrosoftOperator> microsoft_operators() { return rows; }

// Any input but the first and the last that is needed may be left out, as the zero points in the middle of the QLinear operators'
// lists may.
OpSchema microsoft_schema(const MicrosoftOperator& row) {
  OpSchema schema(row.op, __FILE__, __LINE__);
  schema.SetDomain(row.domain).SinceVersion(1).AllowUncheckedAttributes().TypeAndShapeInferenceFunction(row.infer);
  std::set<std::string> constrained;
  const auto type = [&](char letter, const std::string& otherwise) {
    const std::string name = letter == '.' ? otherwise : std::string(1, letter);
    if (constrained.insert(name).second) schema.TypeConstraint(name, OpSchema::all_tensor_types_ir13(), "");
    return name;
  };
  const std::string_view types = row.types;
  const size_t colon = types.find(':');
  for (int i = 0; i < static_cast<int>(colon); ++i) {
    const std::string n = std::to_string(i);
    const char letter = types[static_cast<size_t>(i)];
    const bool needed = i == 0 || i == row.min_inputs - 1;
    if (letter == '*')
      schema.Input(i, "more", "", type('.', "Tmore"), OpSchema::Variadic, /*is_homogeneous=*/false);
    else
      schema.Input(i, "in" + n, "", type(letter, "T" + n), needed ? OpSchema::Single : OpSchema::Optional);
  }
  for (size_t i = colon + 1; i < types.size(); ++i) {
    const int at = static_cast<int>(i - colon) - 1;
    const std::string n = std::to_string(at);
    schema.Output(at, "out" + n, "", type(types[i], "U" + n), at == 0 ? OpSchema::Single : OpSchema::Optional);
  }
  return schema;
}

const MicrosoftOperator* find_microsoft_operator(std::string_view op, std::string_view domain) {
  const auto at = std::ranges::find_if(rows, [&](const MicrosoftOperator& r) { return r.op == op && r.domain == domain; });
  return at == std::ranges::end(rows) ? nullptr : at;
}

}  // namespace smelt::importer
