// The list of the rules, and what applies them to a model.
#include <algorithm>
#include <deque>

#include "import/microsoft/call.h"
#include "import/tensors.h"

namespace smelt::importer {
namespace microsoft {

const onnx::TensorShapeProto* Call::shape(int i) const {
  const auto* t = type(i);
  return t && t->has_tensor_type() && t->tensor_type().has_shape() ? &t->tensor_type().shape() : nullptr;
}

int Call::rank(int i) const {
  if (const auto* s = shape(i)) return s->dim_size();
  refuse("the rank of its input {} ('{}') is not known", i, input(i));
}

std::optional<int64_t> Call::extent(int i, int axis) const {
  const auto* s = shape(i);
  if (!s) return {};
  const int at = axis < 0 ? axis + s->dim_size() : axis;
  if (at < 0 || at >= s->dim_size() || !s->dim(at).has_dim_value()) return {};
  return s->dim(at).dim_value();
}

Tensor Call::constant_input(int i) const {
  if (auto t = constant_of_(input(i))) return std::move(*t);
  refuse("its input {} ('{}') is not a constant", i, input(i));
}

std::string Call::text(const char* attribute, const std::string& otherwise) const {
  const auto* a = find_attribute(node, attribute);
  return a ? a->s() : otherwise;
}

double Call::lowest_score() const {
  return (score_type_ ? score_type_ : element_type(0)) == onnx::TensorProto::FLOAT16 ? -65504.0
                                                                                     : -3.3895313892515355e38;  // bf16's
}

std::vector<std::string> Call::several(const std::string& op, const std::vector<std::string>& inputs, int outputs,
                                       const std::vector<onnx::AttributeProto>& attributes) {
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i) names.push_back(fresh(op));
  before_as(op, inputs, names, attributes);
  return names;
}

std::string Call::keep(Tensor t) {
  onnx::AttributeProto a;
  a.set_name("value");
  a.set_type(onnx::AttributeProto::TENSOR);
  *a.mutable_t() = keep_(std::move(t));
  return before("Constant", {}, {a});
}

void Call::become(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<onnx::AttributeProto>& attributes, const std::string& domain) {
  node.set_op_type(op);
  node.set_domain(domain);
  node.clear_input();
  for (const auto& in : inputs) node.add_input(in);
  node.clear_attribute();
  for (const auto& a : attributes) *node.add_attribute() = a;
  while (node.output_size() > 1) node.mutable_output()->RemoveLast();
}

void Call::give(int output, const std::string& value) {
  if (wants(output)) after("Identity", {value}, node.output(output));
}

namespace {

constexpr const char* contributed = "com.microsoft";
constexpr Rule rules[] = {
    {"Affine", affine, ""},
    {"Attention", attention},
    {"Bernoulli", bernoulli, "", takes_bernoulli},
    {"BiasAdd", bias_add},
    {"BiasSoftmax", bias_softmax},
    {"BiasSplitGelu", bias_split_gelu},
    {"CDist", cdist},
    {"CategoryMapper", category_mapper, "ai.onnx.ml"},
    {"CausalConvWithState", causal_conv_with_state},
    {"ConvTransposeWithDynamicPads", conv_transpose_with_dynamic_pads},
    {"Crop", crop, ""},
    {"DecoderMaskedMultiHeadAttention", decoder_masked_multi_head_attention},
    {"DynamicQuantizeMatMul", dynamic_quantize_matmul, contributed, takes_dynamic_quantize_matmul},
    {"DynamicSlice", dynamic_slice, ""},
    {"EmbedLayerNormalization", embed_layer_normalization},
    {"ExpandDims", expand_dims},
    {"FusedConv", fused_conv},
    {"FusedGemm", fused_gemm, contributed, takes_fused_gemm},
    {"FusedMatMul", fused_matmul},
    {"GatedAdd", gated_add},
    {"GatedRMSNorm", gated_rms_norm},
    {"GatherBlockQuantized", gather_block_quantized},
    {"GatherND", same_spelling},
    {"GemmFastGelu", gemm_fast_gelu},
    {"GlobalLpPool", global_lp_pool, "", takes_global_lp_pool},
    {"GridSample", grid_sample},
    {"GroupNorm", group_norm},
    {"GroupQueryAttention", group_query_attention},
    {"ImageScaler", image_scaler, ""},
    {"LinearAttentionGate", linear_attention_gate},
    {"LpPool", lp_pool, "", takes_lp_pool},
    {"MRotaryEmbedding", multimodal_rotary_embedding},
    {"MatMulBnb4", matmul_bnb4},
    {"MatMulInteger", matmul_integer, "", takes_matmul_integer},
    {"MatMulInteger16", matmul_integer16},
    {"MatMulIntegerToFloat", matmul_integer_to_float, contributed, takes_matmul_integer_to_float},
    {"MatMulNBits", matmul_n_bits},
    {"MaxUnpool", max_unpool, "", takes_max_unpool},
    {"MultiHeadAttention", multi_head_attention},
    {"Multinomial", multinomial, "", takes_multinomial},
    {"NhwcConv", nhwc_conv},
    {"NhwcFusedConv", nhwc_conv},
    {"NhwcMaxPool", nhwc_max_pool},
    {"Pad", same_spelling},
    {"ParametricSoftplus", parametric_softplus, ""},
    {"QAttention", quantized_attention},
    {"QEmbedLayerNormalization", quantized_embed_layer_normalization},
    {"QLinearAveragePool", channels_last},
    {"QLinearConv", channels_last},
    {"QLinearGlobalAveragePool", channels_last},
    {"Range", same_spelling},
    {"RotaryEmbedding", rotary_embedding, contributed, takes_rotary_embedding},
    {"SampleOp", echo},
    {"Scale", scale, ""},
    {"ScaledSiLU", scaled_silu},
    {"ScaledTanh", scaled_tanh, ""},
    {"SkipGroupNorm", skip_group_norm},
    {"SkipLayerNormalization", skip_layer_normalization},
    {"SkipSimplifiedLayerNormalization", skip_simplified_layer_normalization},
    {"ThresholdedRelu", same_spelling, ""},
    {"TransposeMatMul", transpose_matmul},
    {"Trilu", same_spelling},
    {"UnfoldTensor", unfold_tensor},
    {"Unique", unique},
};

const Rule* rule_of(const std::string& domain, const std::string& op) {
  const auto* rule =
      std::find_if(std::begin(rules), std::end(rules), [&](const Rule& r) { return r.op == op && r.domain == domain; });
  return rule == std::end(rules) ? nullptr : rule;
}

}  // namespace
}  // namespace microsoft

bool is_microsoft_call(const onnx::NodeProto& n) { return microsoft::rule_of(n.domain(), n.op_type()) != nullptr; }

bool may_stay(const onnx::NodeProto& n) {
  const auto* rule = microsoft::rule_of(n.domain(), n.op_type());
  return rule && rule->takes;
}

bool replace_microsoft_calls(Loaded& model, const ImportOptions& options) {
  auto& proto = model.proto;
  const auto is_meant = [&](const onnx::NodeProto& n) {
    const auto* rule = microsoft::rule_of(n.domain(), n.op_type());
    return rule && !(rule->takes && options.supported && options.supported(n.domain(), n.op_type()));
  };
  bool any = false;
  for_each_graph(*proto.mutable_graph(), [&](onnx::GraphProto& g) {
    for (const auto& n : g.node()) any = any || is_meant(n);
  });
  if (!any) return false;
  std::map<std::string, const onnx::TensorProto*> constants;
  for_each_graph(*proto.mutable_graph(), [&](onnx::GraphProto& g) {
    for (const auto& t : g.initializer()) constants[t.name()] = &t;
  });
  std::deque<onnx::TensorProto> of_nodes;
  for_each_graph(*proto.mutable_graph(), [&](onnx::GraphProto& g) {
    for (const auto& n : g.node())
      if (const auto* value = n.op_type() == "Constant" && n.domain().empty() ? find_attribute(n, "value") : nullptr)
        constants[n.output(0)] = &of_nodes.emplace_back(value->t());
  });
  Names names(proto);
  const microsoft::ConstantOf constant_of = [&](const std::string& name) -> std::optional<Tensor> {
    const auto it = constants.find(name);
    if (it == constants.end()) return {};
    return read_tensor(*it->second, model);
  };
  const microsoft::Keep keep = [&](Tensor t) { return keep_tensor(std::move(t), model); };
  rewrite_nodes(
      *proto.mutable_graph(), [](const std::string&) { return nullptr; }, is_meant,
      [&](onnx::NodeProto n, const TypeOf& type_of) {
        const auto* rule = microsoft::rule_of(n.domain(), n.op_type());
        microsoft::Call call(std::move(n), type_of, names, constant_of, keep);
        if (!rule->takes || rule->takes(call)) rule->apply(call);
        return std::move(call).nodes();
      });
  return true;
}

}  // namespace smelt::importer
