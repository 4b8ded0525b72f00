// What the pipeline finds in the exported graphs of examples/models, read without their weights.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "fuse/match/rewrite.h"
#include "import/import.h"
#include "support/paths.h"

namespace smelt::fuse {
namespace {

struct Expectation {
  const char* model;
  std::map<std::string, size_t> matched;  // by rewrite
};

std::map<std::string, size_t> matches(const Ledger& ledger) {
  std::map<std::string, size_t> n;
  for (const Entry& e : ledger) n[e.rewrite] += e.matched;
  return n;
}

Graph read(const std::string& model) {
  return import_model(source_dir() / "examples/models" / (model + ".onnx"), {.structure_only = true});
}

class Models : public testing::TestWithParam<Expectation> {};

TEST_P(Models, are_rewritten_as_far_as_expected) {
  Graph g = read(GetParam().model);
  const auto found = matches(run(g));
  verify(g);
  for (const auto& [rewrite, n] : GetParam().matched) EXPECT_EQ(found.contains(rewrite) ? found.at(rewrite) : 0, n) << rewrite;
}

INSTANTIATE_TEST_SUITE_P(
    Examples, Models,
    testing::Values(Expectation{"resnet50.fp32", {{"conv_epilogue", 49}}},
                    Expectation{"resnet50.dyn.fp16", {{"conv_epilogue", 49}}},
                    Expectation{"resnet50.op11.bn.fp32", {{"fold_batch_norm", 53}, {"conv_epilogue", 49}}},
                    Expectation{"mobilenet_v3_large.op13.bn.fp32", {{"fold_batch_norm", 46}}},
                    Expectation{"unet.fp32", {{"concat_in_place", 4}}}, Expectation{"detector.fp32", {{"concat_in_place", 8}}},
                    Expectation{"llama_gpt.fp32",
                                {{"recognise_rms_norm", 33},
                                 {"attention", 16},
                                 {"recognise_swiglu", 16},
                                 {"recognise_rotary", 32},
                                 {"joined_products", 16}}},
                    Expectation{"bert_base.fp32", {{"attention", 12}, {"joined_products", 12}}},
                    Expectation{"whisper_enc.fp32", {{"joined_products", 4}}},
                    Expectation{"sd15_unet.fp16", {{"joined_products", 18}}},
                    Expectation{"dit_xl_2.fp32", {{"attention", 28}, {"modulated_norm", 56}, {"joined_products", 1}}}),
    [](const auto& info) {
      std::string name = info.param.model;
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    });

/// Every residual Add of resnet50 is inside a convolution: 16, each with its Relu.
TEST(Models, resnet50_adds_its_residuals_inside_convolutions) {
  Graph g = read("resnet50.fp32");
  run(g);
  size_t adds = 0, inside = 0;
  for (NodeId id : g.topological()) {
    const Node& n = g.node(id);
    size_t here = 0;
    for (int32_t s : n.sources) here += g.sources()[static_cast<size_t>(s)].op_type == "Add";
    adds += here;
    inside += n.is("Conv", smelt_domain) ? here : 0;
  }
  EXPECT_EQ(adds, 16u);
  EXPECT_EQ(inside, 16u);
}

/// With segments the convolutions read every concatenation's inputs, two of them through an upsampling.
TEST(Models, detector_reads_its_concatenations_in_segments) {
  Graph g = read("detector.fp32");
  run(g, {.concat = ConcatForm::segments});
  size_t concats = 0, upsampled = 0;
  for (NodeId id : g.topological()) {
    const Node& n = g.node(id);
    concats += n.is("Concat");
    for (int64_t f : n.is("Conv", smelt_domain) ? n.get_ints("upsample") : std::vector<int64_t>{}) upsampled += f == 2;
  }
  EXPECT_EQ(concats, 0u);
  EXPECT_EQ(upsampled, 2u);
}

/// dit's 28 adaLN modulations of one SiLU; sd15's 22 of the time and 32 of the context, and 16 times QKV; bert's and llama_gpt's QKV.
TEST(Models, products_of_one_input_are_joined) {
  const auto joined = [](const char* model) {
    Graph g = read(model);
    run(g);
    std::map<size_t, size_t> groups;  // how many there are of so many products
    for (NodeId id : g.topological())
      if (g.node(id).is("JoinedMatMul", smelt_domain)) ++groups[g.node(id).outputs.size()];
    return groups;
  };
  using Groups = std::map<size_t, size_t>;
  EXPECT_EQ(joined("dit_xl_2.fp16"), (Groups{{28, 1}}));
  EXPECT_EQ(joined("sd15_unet.fp16"), (Groups{{3, 16}, {22, 1}, {32, 1}}));
  EXPECT_EQ(joined("bert_base.fp16"), (Groups{{3, 12}}));
  EXPECT_EQ(joined("bert_base.dyn.fp16"), (Groups{{3, 12}}));
  EXPECT_EQ(joined("llama_gpt.bf16"), (Groups{{3, 16}}));
  EXPECT_EQ(joined("whisper_enc.fp16"), (Groups{{2, 4}})) << "the queries' products are scaled";
  EXPECT_EQ(joined("vit_b_16.fp16"), (Groups{})) << "its exporter joined them";
}

/// Two runs over the same graph make the same graph and the same ledger.
TEST(Models, are_rewritten_the_same_way_each_time) {
  Graph a = read("mobilenet_v3_large.fp32"), b = read("mobilenet_v3_large.fp32");
  const Ledger first = run(a), second = run(b);
  EXPECT_EQ(print(a), print(b));
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].detail, second[i].detail);
}

}  // namespace
}  // namespace smelt::fuse
