// Types and shapes that a plan carries are taken as they are, and are those that inference would find.
#include <gtest/gtest.h>

#include <regex>

#include "fuse/match/rewrite.h"
#include "import/export.h"
#include "import/proto.h"
#include "import/stages.h"
#include "ops/core/expand.h"
#include "ops/core/operator.h"
#include "support/errors.h"
#include "support/paths.h"

namespace smelt::fuse {
namespace {

const auto expand = [](const Graph& from, NodeId n) { return ops::expand(from, n); };

onnx::ModelProto plan_of(const std::string& model) {
  Graph g = import_model(source_dir() / "examples/models" / (model + ".onnx"), {.structure_only = true});
  run(g);
  ExportOptions options;
  options.expand = expand;
  onnx::ModelProto plan;
  EXPECT_TRUE(plan.ParseFromString(export_bytes(g, options)));
  return plan;
}

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// The hash that says that the graph is as it was written; none for an empty one.
onnx::ModelProto with_hash(onnx::ModelProto plan, const std::string& hash) {
  auto& metadata = *plan.mutable_metadata_props();
  for (int i = metadata.size(); i-- > 0;)
    if (metadata[i].key() == plan_types_key) metadata.DeleteSubrange(i, 1);
  if (hash.empty()) return plan;
  auto* entry = plan.add_metadata_props();
  entry->set_key(plan_types_key);
  entry->set_value(hash);
  return plan;
}

/// As somebody would write it who wants the types to be believed.
onnx::ModelProto believed(onnx::ModelProto plan) {
  const std::string hash = importer::hash_of_graph(bytes_of(plan.graph().SerializeAsString()), plan);
  return with_hash(std::move(plan), hash);
}

Graph opened(const onnx::ModelProto& plan) {
  ImportOptions options;
  options.supported = [](std::string_view domain, std::string_view op) { return ops::find(op, domain) != nullptr; };
  options.expand = expand;
  return import_model(bytes_of(plan.SerializeAsString()), "plan.onnx", options);
}

/// Without the names of symbols that ONNX makes up for extents that are found by a run.
std::string text_of(const Graph& g) { return std::regex_replace(print(g), std::regex("unk__[0-9]+"), "?"); }

class CarriedTypes : public testing::TestWithParam<const char*> {};

TEST_P(CarriedTypes, are_what_inference_finds) {
  const onnx::ModelProto plan = plan_of(GetParam());
  importer::Loaded model;
  model.proto = plan;
  EXPECT_TRUE(importer::carries_types(model, {}));
  EXPECT_EQ(text_of(opened(plan)), text_of(opened(with_hash(plan, ""))));
}

INSTANTIATE_TEST_SUITE_P(Examples, CarriedTypes,
                         testing::Values("mobilenet_v3_large.fp32", "crnn.fp32", "segformer.fp32", "shufflenet.fp32",
                                         "ssdlite.op16.fp32", "mobilenet_v3_large.fp16"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(CarriedTypes, of_a_changed_graph_are_inferred_again) {
  onnx::ModelProto plan = plan_of("crnn.fp32");
  const std::string before = text_of(opened(plan));
  auto& shape = *plan.mutable_graph()->mutable_value_info(3)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_param("made_up");
  EXPECT_EQ(text_of(opened(plan)), before);
}

TEST(CarriedTypes, that_no_rule_gives_are_inferred_again) {
  const onnx::ModelProto plan = plan_of("shufflenet.fp32");
  const std::string before = text_of(opened(plan));
  const int values = plan.graph().value_info_size();
  ASSERT_GT(values, 20);
  for (int i = 0; i < values; i += 5)
    for (int lie = 0; lie < 3; ++lie) {
      onnx::ModelProto made_up = plan;
      auto& tensor = *made_up.mutable_graph()->mutable_value_info(i)->mutable_type()->mutable_tensor_type();
      if (lie == 0) tensor.set_elem_type(onnx::TensorProto::INT64);
      if (lie == 1) tensor.mutable_shape()->add_dim()->set_dim_value(3);
      if (lie == 2) tensor.mutable_shape()->mutable_dim(0)->set_dim_value(7);
      const auto read = [&] {
        EXPECT_EQ(text_of(opened(believed(std::move(made_up)))), before) << "value " << i << ", lie " << lie;
      };
      error_from(read);  // of a fused node's result, for which ONNX has no rule, the graph around it says that it cannot be
    }
}

TEST(CarriedTypes, that_are_missing_are_inferred) {
  onnx::ModelProto plan = plan_of("crnn.fp32");
  const std::string before = text_of(opened(plan));
  plan.mutable_graph()->mutable_value_info()->RemoveLast();
  EXPECT_EQ(text_of(opened(believed(plan))), before);
}

}  // namespace
}  // namespace smelt::fuse
