// What a plan's file brings back: the graph as it was fused, the steps as they were chosen, and which nodes run as their parts.
// Plans are made for GPUs that are not here.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

#include "base/file.h"
#include "device/cuda/compiler.h"
#include "import/export.h"
#include "import/import.h"
#include "ops/core/expand.h"
#include "plan/carried_choices.h"
#include "plan/context.h"
#include "run/plan.h"
#include "run/save.h"
#include "support/graphs.h"
#include "support/paths.h"

namespace smelt::plan {

using namespace test;

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A folder that lasts as long as it does.
class Folder {
 public:
  explicit Folder(std::string_view name) : path_(fs::path(testing::TempDir()) / fmt::format("smelt_{}_{}", name, getpid())) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  fs::path operator/(std::string_view name) const { return path_ / name; }

 private:
  fs::path path_;
};

Graph read(const fs::path& path) {
  ImportOptions options;
  options.supported = [](std::string_view domain, std::string_view op) {
    return domain == smelt_domain || ops::find(op, domain) != nullptr;
  };
  options.expand = ops::expand;
  return import_model(path, options);
}

/// The graph's text without what each import numbers anew: its nodes, and extents that only a run knows.
std::string text_of(const Graph& g) {
  const std::string numbered = std::regex_replace(print(g), std::regex("(^|\n) *%[0-9]+ "), "$1");
  return std::regex_replace(numbered, std::regex("\\[[^\\[\\]]*unk__[^\\[\\]]*\\]"), "[unknown]");
}

class SavedModels : public testing::TestWithParam<std::string> {};

/// Every graph of examples/models, fused for both machines: what is read is what was written. Its weights are zeros, which take
/// no room in the data file.
TEST_P(SavedModels, come_back_as_they_were_fused) {
  const Folder folder("saved_" + GetParam());
  fs::copy(source_dir() / "examples/models" / (GetParam() + ".onnx"), folder / "model.onnx");
  std::ofstream(folder / (GetParam() + ".data"));
  fs::resize_file(folder / (GetParam() + ".data"), uintmax_t{1} << 33);
  ExportOptions out;
  out.expand = [](const Graph& g, NodeId n) { return ops::expand(g, n); };
  for (const char* arch : {"", "sm_90a"}) {
    SCOPED_TRACE(arch);
    const fuse::Options rewrites = fuse_options(for_arch(arch));
    Graph fused = read(folder / "model.onnx");
    fuse::run(fused, rewrites);
    export_model(fused, folder / "plan.onnx", out);
    Graph again = read(folder / "plan.onnx");
    EXPECT_TRUE(text_of(again) == text_of(fused)) << "as it is read";
    fuse::run(again, rewrites);
    EXPECT_TRUE(text_of(again) == text_of(fused)) << "rewritten";
  }
}

std::vector<std::string> example_models() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(source_dir() / "examples/models"))
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Examples, SavedModels, testing::ValuesIn(example_models()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

/// Softmax of the rows of three products of x, one of them with a bias, and a gate and what it gates.
Graph products() {
  constexpr int64_t rows = 1024, depth = 512;
  Builder b;
  const ValueId x = b.input("x", to_sym({rows, depth}), DType::f16);
  const auto product = [&](const std::string& name, int64_t columns) {
    return b.node(name, "MatMul", {x, b.weights(name + ".w", {depth, columns}, DType::f16, 0.05)}, to_sym({rows, columns}),
                  DType::f16);
  };
  const ValueId q =
      b.node("q\nadd", "Add", {product("q", 512), b.weights("bias", {512}, DType::f16)}, to_sym({rows, 512}), DType::f16);
  for (const ValueId y : {q, product("k", 256), product("v", 256)})
    b.output(b.node(b.g.value(y).name + ".soft", "Softmax", {y}, *b.g.value(y).shape, DType::f16, {{"axis", int64_t{-1}}}));
  const ValueId h = b.node("h", "Softmax", {product("first", depth)}, to_sym({rows, depth}), DType::f16, {{"axis", int64_t{-1}}});
  const SymShape wide = to_sym({rows, 1408});
  const auto of_h = [&](const std::string& name) {
    return b.node(name, "MatMul", {h, b.weights(name + ".w", {depth, 1408}, DType::f16, 0.05)}, wide, DType::f16);
  };
  const ValueId gate = of_h("gate"), up = of_h("up");
  const ValueId open = b.node("open", "Sigmoid", {gate}, wide, DType::f16);
  b.output(b.node("gated", "Mul", {b.node("silu", "Mul", {gate, open}, wide, DType::f16), up}, wide, DType::f16));
  return std::move(b.g);
}

/// All of a plan's steps that its file has to bring back.
std::vector<std::string> facts(const Plan& plan) {
  std::vector<std::string> all;
  for (const StepInfo& s : plan.steps()) {
    std::vector<std::string> sources;
    for (size_t i = 0; i < s.sources.size(); ++i)
      sources.push_back(fmt::format("{} in {}", s.sources[i], fmt::join(s.scopes.at(i), "/")));
    std::ranges::sort(sources);
    all.push_back(fmt::format("{}: {} {} {} {} host {} of {} moves {} computes {} part {} gives {} holds {} {} {}", s.name, s.op,
                              s.problem, s.tactic, s.config, s.on_host, fmt::join(sources, ", "), s.bytes, s.flops, s.part,
                              fmt::join(s.output_shapes, ","), s.memory.bound, s.memory.activations, s.memory.workspace));
  }
  return all;
}

class SavedPlans : public testing::Test {
 protected:
  void SetUp() override {
    if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  }
  /// The plan as it is read, with what runs apart as `apart` says where that is given.
  std::shared_ptr<const Plan> again(const Plan& plan, const SaveOptions& options,
                                    const std::optional<std::set<std::string>>& apart = std::nullopt) const {
    save_plan(plan, file(), options);
    if (apart) {
      const Graph g = read(file());
      ExportOptions out;
      out.metadata = g.model.metadata;
      write_choices({.device = plan.device(), .apart = apart}, out.metadata);
      out.expand = [](const Graph& of, NodeId n) { return ops::expand(of, n); };
      out.copy_weights = true;
      export_model(g, folder_ / "edited.onnx", out);
      return Plan::build((folder_ / "edited.onnx").string(), for_arch(plan.options().arch));
    }
    return Plan::build(file().string(), for_arch(plan.options().arch));
  }
  fs::path file() const { return folder_ / "plan.onnx"; }

 private:
  Folder folder_{"saved_plans"};
};

size_t products_in(const Plan& plan) {
  const auto steps = plan.steps();
  return static_cast<size_t>(std::ranges::count_if(steps, [](const StepInfo& s) { return s.problem.starts_with("gemm:"); }));
}

TEST_F(SavedPlans, have_every_fact_of_every_step) {
  for (const char* arch : {"sm_80", "sm_90a"})
    for (const bool embed : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", arch, embed ? " with kernels" : ""));
      const auto plan = Plan::build(products(), for_arch(arch));
      EXPECT_THAT(facts(*plan), testing::Contains(HasSubstr("gemm:f16>f16:1024x1536x512:"))) << "all of x joined";
      EXPECT_EQ(facts(*again(*plan, {.embed_kernels = embed})), facts(*plan));
    }
}

/// As a build that measured may have found, whatever the estimates say.
TEST_F(SavedPlans, have_the_nodes_apart_that_their_build_had) {
  const auto joined = Plan::build(products(), for_arch("sm_90a"));
  const size_t all = products_in(*joined);
  const std::string name = [&] {
    for (const StepInfo& s : joined->steps())
      if (s.problem.starts_with("gemm:f16>f16:1024x1536x512:")) return s.name;
    return std::string();
  }();
  const auto apart = again(*joined, {}, {{"gate gated", "products " + name}});
  EXPECT_EQ(products_in(*apart), all + 4);
  for (const bool embed : {false, true}) EXPECT_EQ(facts(*again(*apart, {.embed_kernels = embed})), facts(*apart)) << embed;
}

TEST(CarriedChoices, keep_names_with_ends_of_lines) {
  const std::set<std::string> names{"a\nb", "a\\nb", "c\\"};
  std::map<std::string, std::string> metadata;
  write_choices({.device = "d", .plain = names, .apart = names}, metadata);
  const CarriedChoices read = read_choices(metadata);
  EXPECT_EQ(read.plain, names);
  EXPECT_EQ(read.apart, names);
}

TEST(CarriedChoices, keep_the_timings_that_decided) {
  tune::Timing timing{"onednn", "brgemm nhwc", 2.5, 3, 3, 3, 3, 9};
  timing.width = 2;
  const std::vector<tune::CacheEntry> decided = {
      {{"gemm:1 | fused or apart: a, b", "cpu, avx2, 2 threads", "smelt 0"}, 2, {timing}}};
  CarriedChoices carried;
  carried.device = "cpu, avx2, 2 threads";
  carried.timings = tune::to_text(decided);
  std::map<std::string, std::string> metadata;
  write_choices(carried, metadata);
  const std::vector<tune::CacheEntry> read = tune::entries_in(read_choices(metadata).timings);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].key, decided[0].key);
  EXPECT_EQ(read[0].timings, decided[0].timings);
  EXPECT_FALSE(metadata.contains("smelt.plan.timings")) << "they are taken out";
}

}  // namespace
}  // namespace smelt::plan
