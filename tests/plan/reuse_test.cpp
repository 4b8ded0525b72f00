// What a Planner remembers of other extents changes no plan: with and without it the same shapes, met in the same order, give
// the same steps, tactics and memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "fuse/match/rewrite.h"
#include "import/import.h"
#include "ops/core/machine.h"
#include "plan/planner.h"
#include "support/graphs.h"
#include "support/paths.h"

namespace smelt::plan {

using namespace test;

namespace {

Options estimated() {
  Options o;
  o.tuning_level = 0;
  o.use_cache = false;
  o.threads = 2;
  return o;
}

Planner planner(const Graph& g, bool remembers) {
  const Options options = estimated();
  auto context = std::make_shared<Context>(ops::this_machine(options.threads), options, Target{}, tune::Cache::in_memory());
  context->remembers = remembers;
  return {clone(g), std::move(context)};
}

void expect_same_tensor(const BoundValue& a, const BoundValue& b) {
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.layout, b.layout);
  EXPECT_EQ(a.strides, b.strides);
  EXPECT_EQ(a.offset, b.offset);
  EXPECT_EQ(a.constant.valid(), b.constant.valid());
}

void expect_same_segment(const Segment& a, const Segment& b) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const Step &x = a.steps[i], &y = b.steps[i];
    SCOPED_TRACE(ops::label(*x.node));
    EXPECT_EQ(x.kind, y.kind);
    EXPECT_EQ(x.id, y.id);
    EXPECT_EQ(x.part, y.part);
    EXPECT_EQ(x.node->op, y.node->op);
    EXPECT_EQ(x.problem, y.problem);
    EXPECT_EQ(x.tactic + " " + x.config, y.tactic + " " + y.config);
    for (const auto list : {&Step::inputs, &Step::outputs}) {
      ASSERT_EQ((x.*list).size(), (y.*list).size());
      for (size_t t = 0; t < (x.*list).size(); ++t) {
        ASSERT_EQ((x.*list)[t] == absent, (y.*list)[t] == absent);
        if ((x.*list)[t] != absent) expect_same_tensor(a.tensor((x.*list)[t]), b.tensor((y.*list)[t]));
      }
    }
  }
  EXPECT_EQ(a.arena, b.arena);
}

/// Each shape, after those before it.
void expect_same_plans(Graph g, const std::vector<std::vector<Shape>>& inputs) {
  fuse::run(g, fuse_options(estimated()));
  const Planner remembering = planner(g, true), asking = planner(g, false), growing = planner(g, true);
  GrownShapes grown;
  for (const std::vector<Shape>& shapes : inputs) {
    SCOPED_TRACE(to_string(shapes.front()));
    const PlannedSegment a = remembering.first(shapes, Measure::no), b = asking.first(shapes, Measure::no);
    expect_same_segment(a.segment, b.segment);
    expect_same_segment(growing.first(shapes, Measure::no, {}, nullptr, &grown).segment, b.segment);
  }
}

/// Convolutions, a pooling, an addition and a concatenation over channels: layouts and slices to decide.
Graph image() {
  Builder b;
  const Dim h("h"), w("w"), h2("h2"), w2("w2");
  const auto plane = [](int64_t channels, const Dim& height, const Dim& width) {
    return SymShape{Dim("n"), Dim(channels), height, width};
  };
  const std::map<std::string, Attribute> same = {{"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  const ValueId x = b.input("x", plane(3, h, w));
  const ValueId stem = b.node("stem", "Conv", {x, b.weights("k0", {16, 3, 3, 3})}, plane(16, h, w), DType::f32, same);
  const ValueId bent = b.node("bent", "Relu", {stem}, plane(16, h, w));
  const ValueId left = b.node("left", "Conv", {bent, b.weights("k1", {16, 16, 3, 3})}, plane(16, h, w), DType::f32, same);
  const ValueId right = b.node("right", "Conv", {bent, b.weights("k2", {8, 16, 1, 1})}, plane(8, h, w));
  const ValueId sum = b.node("sum", "Add", {left, bent}, plane(16, h, w));
  const ValueId both = b.node("both", "Concat", {sum, right}, plane(24, h, w), DType::f32, {{"axis", int64_t{1}}});
  const ValueId pooled = b.node("pooled", "MaxPool", {both}, plane(24, h2, w2), DType::f32,
                                {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
  const ValueId last = b.node("last", "Conv", {pooled, b.weights("k3", {4, 24, 1, 1})}, plane(4, h2, w2));
  b.output(b.node("soft", "Softmax", {last}, plane(4, h2, w2), DType::f32, {{"axis", int64_t{1}}}));
  return std::move(b.g);
}

TEST(Reuse, changes_no_plan_of_images) {
  std::vector<std::vector<Shape>> inputs;
  for (const auto& [n, h, w] :
       {std::array<int64_t, 3>{1, 32, 48}, {2, 31, 17}, {1, 2, 2}, {1, 1 + 1, 64}, {3, 64, 3}, {1, 32, 48}})
    inputs.push_back({{n, 3, h, w}});
  expect_same_plans(image(), inputs);
}

/// Three products of x by softmaxes of their own, which read slices of one product where they can.
Graph projections() {
  Builder b;
  const auto rows = [](int64_t columns) { return SymShape{Dim("n"), Dim("rows"), Dim(columns)}; };
  const ValueId x = b.input("x", rows(40));
  for (const int64_t columns : {24, 24, 16}) {
    const std::string name = "p" + std::to_string(b.g.outputs().size());
    const ValueId y = b.node(name, "MatMul", {x, b.weights(name + ".w", {40, columns})}, rows(columns));
    b.output(b.node(name + ".soft", "Softmax", {y}, rows(columns)));
  }
  return std::move(b.g);
}

TEST(Reuse, changes_no_plan_of_joined_products) {
  expect_same_plans(projections(),
                    {{{1, 12, 40}}, {{2, 64, 40}}, {{1, 1, 40}}, {{4, 1, 40}}, {{1, 700, 40}}, {{0, 3, 40}}, {{2, 9, 40}}});
}

TEST(Reuse, changes_no_plan_of_attention_over_a_cache_that_grows) {
  std::vector<std::vector<Shape>> inputs;
  for (int64_t past : {4, 0, 1, 16, 33, 34, 35, 200, 36, 2, 3, 1})
    inputs.push_back({{2, 1, 16}, {2, 2, past, 8}, {2, 2, past, 8}});
  expect_same_plans(decoding_block(2, DType::f32), inputs);
}

TEST(Reuse, changes_no_plan_where_shapes_are_computed) {
  expect_same_plans(symbolic_graph(),
                    {{{2, 3, 4}}, {{1, 1, 4}}, {{5, 0, 4}}, {{7, 30, 4}}, {{8, 30, 4}}, {{8, 31, 4}}, {{2, 2, 4}}});
}

/// Of examples/models, and of bench/packages.py where its models are at hand.
struct Subject {
  const char* name;
  std::vector<std::vector<Shape>> inputs;
};

class ReuseOfModels : public testing::TestWithParam<Subject> {};

TEST_P(ReuseOfModels, changes_no_plan) {
  const std::string file = std::string(GetParam().name) + ".onnx";
  std::filesystem::path path = source_dir() / "examples/models" / file;
  if (!exists(path)) path = build_dir() / "bench-models" / file;
  if (!exists(path)) GTEST_SKIP() << file << " is not at hand";
  expect_same_plans(import_model(path, {.structure_only = true}), GetParam().inputs);
}

INSTANTIATE_TEST_SUITE_P(
    All, ReuseOfModels,
    testing::Values(Subject{"bert_base.dyn.fp16", {{{2, 24}}, {{1, 7}}, {{4, 1}}, {{1, 1}}, {{3, 40}}}},
                    Subject{"llama_gpt.dyn.bf16", {{{1, 16}}, {{2, 5}}, {{1, 1}}}},
                    Subject{"resnet50.dyn.fp16", {{{1, 3, 224, 224}}, {{2, 3, 224, 224}}, {{3, 3, 224, 224}}}},
                    Subject{"unet.dyn.fp16", {{{1, 3, 256, 256}}, {{2, 3, 256, 256}}}},
                    Subject{"ppocr_rec", {{{1, 3, 48, 320}}, {{1, 3, 48, 93}}, {{2, 3, 48, 8}}, {{1, 3, 48, 640}}}},
                    Subject{"ppocr_det", {{{1, 3, 160, 320}}, {{1, 3, 32, 32}}, {{2, 3, 96, 64}}}},
                    Subject{"ocr_reader", {{{1, 1, 64, 160}}, {{1, 1, 64, 61}}, {{1, 1, 64, 300}}}}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::ranges::replace(name, '.', '_');
      return name;
    });

}  // namespace
}  // namespace smelt::plan
