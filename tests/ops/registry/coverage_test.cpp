// Every operator that the onnx library defines is one that smelt runs, one that it expands into its function body, or one
// that is left out for a reason given here.
#include <gtest/gtest.h>
#include <onnx/defs/schema.h>

#include <map>
#include <string>

#include "ops/core/operator.h"

namespace smelt::ops {
namespace {

const char* const sequences = "sequence or optional values: a graph's values are tensors";

const std::map<std::string, std::string> left_out = {
    {"ConcatFromSequence", sequences},
    {"Optional", sequences},
    {"OptionalGetElement", sequences},
    {"OptionalHasElement", sequences},
    {"SequenceAt", sequences},
    {"SequenceConstruct", sequences},
    {"SequenceEmpty", sequences},
    {"SequenceErase", sequences},
    {"SequenceInsert", sequences},
    {"SequenceLength", sequences},
    {"SplitToSequence", sequences},
    {"ImageDecoder", "decoding JPEG, PNG and others is an image library's work, done before inference"},
    {"ai.onnx.ml.CastMap", "map values: a graph's values are tensors"},
    {"ai.onnx.ml.DictVectorizer", "map values: a graph's values are tensors"},
    {"ai.onnx.ml.ZipMap",
     "map values: a graph's values are tensors; as a model's output, its tensor is given (import/classical.cpp)"},
    {"ai.onnx.ml.CategoryMapper", "becomes LabelEncoder when the file is read (import/microsoft/plain.cpp)"},
    {"ai.onnx.preview.training.Gradient", "differentiates a graph: training, not inference"},
};

std::string full_name(const onnx::OpSchema& s) { return s.domain().empty() ? s.Name() : s.domain() + "." + s.Name(); }

TEST(Coverage, every_onnx_operator_runs_expands_or_is_left_out_for_a_reason) {
  int counted = 0;
  std::map<std::string, bool> reasons_used;
  for (const onnx::OpSchema& s : onnx::OpSchemaRegistry::get_all_schemas()) {
    if (s.deprecated() || s.domain() == "com.microsoft" || s.domain() == smelt_domain) continue;
    ++counted;
    const bool runs = find(s.Name(), s.domain()) != nullptr, expands = s.HasFunction() || s.HasContextDependentFunction();
    const bool listed = left_out.contains(full_name(s));
    if (listed) reasons_used[full_name(s)] = true;
    EXPECT_TRUE(runs || expands || listed) << full_name(s) << " neither runs nor expands: define it, or list it with a reason";
    EXPECT_FALSE(runs && listed) << full_name(s) << " runs: take it off the list";
  }
  EXPECT_GT(counted, 200);  // the registry was there
  for (const auto& [name, reason] : left_out) EXPECT_TRUE(reasons_used.contains(name)) << name << " is no operator of this onnx";
}

TEST(Coverage, the_common_operators_of_onnx_runtime_run) {
  for (const char* op : {"FusedMatMul",
                         "Gelu",
                         "FastGelu",
                         "BiasGelu",
                         "QuickGelu",
                         "SkipLayerNormalization",
                         "SkipSimplifiedLayerNormalization",
                         "SimplifiedLayerNormalization",
                         "RotaryEmbedding",
                         "FusedConv",
                         "FusedGemm",
                         "QLinearAdd",
                         "QLinearMul",
                         "QLinearAveragePool",
                         "QLinearGlobalAveragePool",
                         "QLinearSigmoid",
                         "QLinearLeakyRelu",
                         "QLinearConcat",
                         "QLinearSoftmax",
                         "DynamicQuantizeLSTM",
                         "DynamicQuantizeMatMul",
                         "MatMulIntegerToFloat",
                         "QGemm",
                         "QuantizeLinear",
                         "DequantizeLinear"}) {
    EXPECT_NE(find(op, microsoft_domain), nullptr) << op;
  }
}

}  // namespace
}  // namespace smelt::ops
