// What is found in the exported models of examples/models: counts that the architectures dictate.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "fuse/match/rewrite.h"
#include "import/import.h"
#include "support/paths.h"

namespace smelt::fuse {
namespace {

struct Explained {
  std::map<std::string, int> matched;
  std::map<std::string, int> operators;  // "ai.smelt.Attention" after rewriting
  Ledger ledger;
  int operator()(const std::string& rewrite) const { return matched.contains(rewrite) ? matched.at(rewrite) : 0; }
  int of(const std::string& op) const { return operators.contains(op) ? operators.at(op) : 0; }
};

class RecognisedInModels : public testing::Test {
 protected:
  Explained explain(const std::string& name) {
    const std::filesystem::path path = source_dir() / "examples" / "models" / (name + ".onnx");
    Explained e;
    ImportOptions options;
    options.structure_only = true;
    Graph g = import_model(path, options);
    e.ledger = run(g);
    for (const Entry& entry : e.ledger)
      if (entry.matched) ++e.matched[entry.rewrite];
    for (NodeId n : g.topological()) ++e.operators[(g.node(n).domain.empty() ? "" : g.node(n).domain + ".") + g.node(n).op];
    return e;
  }

  /// How many matches of a rewrite cover a node whose name contains each of these.
  static int covering(const Explained& e, const std::string& rewrite, std::vector<std::string> parts) {
    int count = 0;
    for (const Entry& entry : e.ledger) {
      if (!entry.matched || entry.rewrite != rewrite) continue;
      bool all = true;
      for (const std::string& part : parts) {
        bool found = false;
        for (const std::string& node : entry.nodes) found = found || node.find(part) != std::string::npos;
        all = all && found;
      }
      count += all;
    }
    return count;
  }
};

TEST_F(RecognisedInModels, llama_gpt) {
  for (const char* name : {"llama_gpt.fp32", "llama_gpt.bf16", "llama_gpt.dyn.bf16", "llama_gpt.op14.fp32"}) {
    SCOPED_TRACE(name);
    Explained e = explain(name);
    EXPECT_EQ(e("recognise_rms_norm"), 33);
    EXPECT_EQ(e("attention"), 16);
    EXPECT_EQ(e("recognise_swiglu"), 16);
    EXPECT_EQ(e("recognise_rotary"), 32);
    EXPECT_EQ(e.of("Softmax") + e.of("Pow") + e.of("ReduceMean") + e.of("Sigmoid") + e.of("Split"), 0);
  }
}

TEST_F(RecognisedInModels, llama7b_decode) {
  for (const char* name : {"llama7b_decode.fp16", "llama7b_decode.dyn.fp16"}) {
    SCOPED_TRACE(name);
    Explained e = explain(name);
    EXPECT_EQ(e("recognise_rms_norm"), 5);
    EXPECT_EQ(e("attention"), 2);
    EXPECT_EQ(e("recognise_swiglu"), 2);
    EXPECT_EQ(e("recognise_rotary"), 4);
  }
}

TEST_F(RecognisedInModels, bert_base) {
  for (const char* name : {"bert_base.fp32", "bert_base.fp16", "bert_base.dyn.fp16"}) {
    SCOPED_TRACE(name);
    Explained e = explain(name);
    EXPECT_EQ(e("attention"), 12);
    EXPECT_EQ(covering(e, "attention", {"IsNaN", "Where"}), 12);
    EXPECT_EQ(e("residual_norm"), 24);
    EXPECT_EQ(covering(e, "matmul_epilogue", {"MatMul", "linear", "gelu"}), 12);
    EXPECT_EQ(e.of("IsNaN") + e.of("Gelu") + e.of("Softmax") + e.of("LayerNormalization"), 0);
  }
}

TEST_F(RecognisedInModels, dit_xl_2) {
  for (const char* name : {"dit_xl_2.fp32", "dit_xl_2.fp16"}) {
    SCOPED_TRACE(name);
    Explained e = explain(name);
    EXPECT_EQ(e("attention"), 28);
    EXPECT_EQ(e("modulated_norm"), 56);
    EXPECT_EQ(e.of("Gelu") + e.of("Softmax") + e.of("LayerNormalization") + e.of("Gemm"), 0);
  }
}

TEST_F(RecognisedInModels, vit_b_16) {
  for (const char* name : {"vit_b_16.fp32", "vit_b_16.fp16"}) {
    SCOPED_TRACE(name);
    Explained e = explain(name);
    EXPECT_EQ(e("attention"), 12);
    EXPECT_EQ(e("norm_operator"), 25);
    EXPECT_EQ(e.of("Gelu") + e.of("MatMul") + e.of("Gemm"), 0);
  }
}

TEST_F(RecognisedInModels, sd15_unet) {
  Explained e = explain("sd15_unet.fp16");
  EXPECT_EQ(e("attention"), 32);
  EXPECT_EQ(e("recognise_group_norm"), 61);
  EXPECT_EQ(e("recognise_silu"), 47);
  EXPECT_EQ(e("norm_operator"), 48);
}

TEST_F(RecognisedInModels, mobilenet_of_the_old_exporter_spells_hard_swish_out) {
  EXPECT_EQ(explain("mobilenet_v3_large.op13.bn.fp32")("recognise_hard_swish"), 21);
}

}  // namespace
}  // namespace smelt::fuse
