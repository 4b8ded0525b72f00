// A call of an operator of com.microsoft (ONNX Runtime's contributed ones) that becomes nodes of ONNX's operators.
//
// A rule sees the call with the types that inference found and with the constants among its inputs. It adds ONNX's nodes before the
// call and turns the call itself into the last of them, so that names, scopes and the source of all stay the call's. What a rule
// does not support it refuses, naming the attribute or the input. ONNX Runtime's docs/ContribOperators.md says what the operators
// mean; tests/python/test_microsoft*.py hold each rule to ONNX Runtime's results.
#pragma once

#include <fmt/core.h>
#include <onnx/defs/attr_proto_util.h>

#include "base/error.h"
#include "import/upgrade.h"

namespace smelt::importer::microsoft {

using onnx::MakeAttribute;

/// The tensor behind a name, where it is a constant of the model.
using ConstantOf = std::function<std::optional<Tensor>(const std::string& value)>;
/// A TensorProto for a constant: its bytes lie beside the model where there are many.
using Keep = std::function<onnx::TensorProto(Tensor)>;

class Call : public Upgrade {
 public:
  Call(onnx::NodeProto n, const TypeOf& type_of, Names& names, const ConstantOf& constant_of, const Keep& keep)
      : Upgrade(std::move(n), type_of, names), constant_of_(constant_of), keep_(keep) {}

  bool has(int i) const { return !input(i).empty(); }
  bool wants(int i) const { return i < node.output_size() && !node.output(i).empty(); }

  /// The shape of an input whose rank is known, else null.
  const onnx::TensorShapeProto* shape(int i) const;
  /// Refuses where the rank is not known.
  int rank(int i) const;
  /// An extent, counted from the last axis for a negative one; nothing where it is not known.
  std::optional<int64_t> extent(int i, int axis) const;
  /// The input's constant; refuses where it is none.
  Tensor constant_input(int i) const;

  template <class... Args> [[noreturn]] void refuse(fmt::format_string<Args...> why, Args&&... args) const {
    fail_unsupported("node {}: {}", describe(node), fmt::format(why, std::forward<Args>(args)...));
  }
  void refuse_input(int i, const char* name) const {
    if (has(i)) refuse("its input {} ({}) is not supported", i, name);
  }
  void refuse_output(int i, const char* name) const {
    if (wants(i)) refuse("its output {} ({}) is not supported", i, name);
  }
  void refuse_flag(const char* attribute) const {
    if (integer(attribute, 0) != 0) refuse("{} is {}, expected 0", attribute, integer(attribute, 0));
  }
  std::string text(const char* attribute, const std::string& otherwise) const;

  /// Several outputs of one node.
  std::vector<std::string> several(const std::string& op, const std::vector<std::string>& inputs, int outputs,
                                   const std::vector<onnx::AttributeProto>& attributes = {});
  /// A constant before the call; its name.
  std::string keep(Tensor t);
  /// The input whose element type scores are of; the first unless said otherwise.
  void score_type(int input) { score_type_ = element_type(input); }
  /// A constant scalar of the scores' element type, and its lowest finite value.
  std::string score_scalar(double value) { return scalar(score_type_ ? score_type_ : element_type(0), value); }
  double lowest_score() const;
  /// The call becomes this node, with its first output alone.
  void become(const std::string& op, const std::vector<std::string>& inputs,
              const std::vector<onnx::AttributeProto>& attributes = {}, const std::string& domain = "");
  /// Another output of the call is this value.
  void give(int output, const std::string& value);

 private:
  const ConstantOf& constant_of_;
  const Keep& keep_;
  int32_t score_type_ = 0;
};

struct Rule {
  const char* op;
  void (*apply)(Call&);
  const char* domain = "com.microsoft";
  /// A rule that holds only where the operator does not run as it is: what it takes of its calls. Others stay, which a machine without a
  /// kernel says or runs on the processor. Null: every machine's rule.
  bool (*takes)(const Call&) = nullptr;
};

// attention.cpp
void attention(Call& c);
void quantized_attention(Call& c);
void multi_head_attention(Call& c);
void decoder_masked_multi_head_attention(Call& c);
// grouped_attention.cpp
void group_query_attention(Call& c);
// embed.cpp
void embed_layer_normalization(Call& c);
void quantized_embed_layer_normalization(Call& c);
// skip_norm.cpp
void skip_layer_normalization(Call& c);
void skip_simplified_layer_normalization(Call& c);
// four_bits.cpp
void matmul_n_bits(Call& c);
void gather_block_quantized(Call& c);
// bitsandbytes.cpp
void matmul_bnb4(Call& c);
// fused.cpp
void fused_conv(Call& c);
void fused_matmul(Call& c);
void transpose_matmul(Call& c);
void bias_softmax(Call& c);
void bias_add(Call& c);
void bias_split_gelu(Call& c);
void group_norm(Call& c);
void skip_group_norm(Call& c);
void channels_last(Call& c);
void nhwc_max_pool(Call& c);
void nhwc_conv(Call& c);
void gemm_fast_gelu(Call& c);
void fused_gemm(Call& c);
bool takes_fused_gemm(const Call& c);
// where_unsupported.cpp
void matmul_integer_to_float(Call& c);
bool takes_matmul_integer_to_float(const Call& c);
void dynamic_quantize_matmul(Call& c);
bool takes_dynamic_quantize_matmul(const Call& c);
void rotary_embedding(Call& c);
bool takes_rotary_embedding(const Call& c);
// without_kernel.cpp
void lp_pool(Call& c);
bool takes_lp_pool(const Call& c);
void global_lp_pool(Call& c);
bool takes_global_lp_pool(const Call& c);
void max_unpool(Call& c);
bool takes_max_unpool(const Call& c);
void multinomial(Call& c);
bool takes_multinomial(const Call& c);
void bernoulli(Call& c);
bool takes_bernoulli(const Call& c);
void matmul_integer(Call& c);
bool takes_matmul_integer(const Call& c);
// plain.cpp
void same_spelling(Call& c);
void expand_dims(Call& c);
void grid_sample(Call& c);
void unique(Call& c);
void cdist(Call& c);
void matmul_integer16(Call& c);
void unfold_tensor(Call& c);
void conv_transpose_with_dynamic_pads(Call& c);
void category_mapper(Call& c);
void echo(Call& c);
// sequence_models.cpp
void causal_conv_with_state(Call& c);
void linear_attention_gate(Call& c);
void gated_rms_norm(Call& c);
void gated_add(Call& c);
void scaled_silu(Call& c);
void multimodal_rotary_embedding(Call& c);
// early.cpp
void affine(Call& c);
void scaled_tanh(Call& c);
void parametric_softplus(Call& c);
void scale(Call& c);
void image_scaler(Call& c);
void crop(Call& c);
void dynamic_slice(Call& c);

}  // namespace smelt::importer::microsoft
