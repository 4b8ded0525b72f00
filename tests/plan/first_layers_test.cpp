// A first layer runs as one kernel only where that takes less time than its parts; no GPU is needed.
#include "plan/first_layers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "device/cuda/compiler.h"
#include "ops/conv/stem.h"
#include "plan/layouts.h"
#include "plan/machine.h"
#include "plan/shapes.h"
#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

/// ResNet-50's first layer of an image of `given`, in f16: conversion, convolution, relu and MaxPool.
Graph layer(int64_t images, DType given = DType::u8, int64_t channels = 64) {
  using Ints = std::vector<int64_t>;
  Builder b;
  const SymShape photo = to_sym({images, 3, 56, 56}), y = to_sym({images, channels, 28, 28});
  ValueId x = b.input("x", photo, given);
  if (given != DType::f16) {
    x = b.node("cast", "Cast", {x}, photo, DType::f16, {{"to", int64_t{10}}});
    x = b.node("scale", "Mul", {x, b.scalar(0.0078125, DType::f16)}, photo, DType::f16);
  }
  const ValueId conv =
      b.node("conv", "Conv", {x, b.weights("w", {channels, 3, 7, 7}, DType::f16), b.weights("b", {channels}, DType::f16)}, y,
             DType::f16, {{"pads", Ints{3, 3, 3, 3}}, {"strides", Ints{2, 2}}});
  const ValueId relu = b.node("relu", "Relu", {conv}, y, DType::f16);
  b.output(b.node("pool", "MaxPool", {relu}, to_sym({images, channels, 14, 14}), DType::f16,
                  {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}));
  return std::move(b.g);
}

/// The layer, planned for an H100 as far as its layouts, and what was measured of it.
struct Planned {
  Graph graph;
  EmbeddedKernels none;
  std::shared_ptr<tune::Cache> cache = tune::Cache::in_memory();
  std::unique_ptr<Context> context;
  Segment segment;

  Planned(Graph g, int level) : graph(std::move(g)) {
    Options o = for_arch("sm_90a");
    fuse::run(graph, fuse_options(o));
    o.tuning_level = level;
    context = std::make_unique<Context>(machine_for(o, false, none), o, Target{.is_host = false, .block_alignment = 256}, cache);
    const std::vector<NodeId> order = graph.topological();
    Environment env(graph, order);
    const ValueId x = graph.inputs()[0];
    env.set(x, graph.value(x).type, to_shape(*graph.value(x).shape));
    segment = plan_segment(graph, order, env, true);
    FirstLayers(apart).split_refused(segment, *context);
    assign_layouts(segment, context->tuner);
  }
  Apart apart;

  const Step& layer() const {
    return *std::ranges::find_if(segment.steps, [](const Step& s) { return ops::conv::is_stem(*s.node); });
  }
  /// Every candidate of the problem was measured at `us`.
  void measured(const ops::BoundNode& node, double us) {
    const ops::Offer offer = ops::offer(node, context->tuner.machine());
    const auto& machine = context->tuner.machine();
    tune::CacheEntry entry{{offer.problem, tune::device_text(machine), machine.versions}, 3, {}};
    for (const ops::Candidate& c : offer.candidates) entry.timings.push_back({c.tactic, c.config, us, us, us, us, us, 5});
    cache->keep(std::move(entry));
  }
  /// The operators that run.
  std::vector<std::string> ops() const {
    std::vector<std::string> all;
    for (const Step& s : segment.steps)
      if (s.node->op != "Reorder") all.push_back(s.node->op);
    return all;
  }
};

class FirstLayersTest : public testing::Test {
  void SetUp() override {
    if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  }
};

const std::vector<std::string> one = {"StemConv"}, parts = {"Pointwise", "Conv", "MaxPool"};

TEST_F(FirstLayersTest, run_apart_where_their_parts_were_measured_to_take_less) {
  struct Case {
    double whole, image, conv, pool;
    bool apart;
  };
  // Times of ResNet-50's on an H100, at 32 images and at one.
  for (const Case& c : {Case{142, 10.4, 43.7, 17.1, true}, Case{6.8, 1.2, 4.9, 4.1, false}, Case{10, 3, 4, 3, true}}) {
    Planned p(layer(32), 1);
    ASSERT_EQ(p.ops(), one);
    const Step whole = p.layer();
    const ops::BoundNode node = bound_node(p.segment, whole, nullptr);
    EXPECT_EQ(node.outputs[0].layout, ops::Layout::nhwc) << "whatever the image's type";
    const ops::conv::StemParts each(node);
    p.measured(node, c.whole), p.measured(each.converted, c.image), p.measured(each.convolved, c.conv),
        p.measured(each.pooled, c.pool);
    FirstLayers(p.apart).apply(p.segment, *p.context, true);
    EXPECT_EQ(p.ops(), c.apart ? parts : one) << c.whole;
    EXPECT_EQ(p.apart.entries().contains("first layer " + whole.node->name), c.apart);
    for (const Step& s : p.segment.steps) {
      if (s.id != whole.id) continue;
      ASSERT_TRUE(s.fused);
      EXPECT_TRUE(s.fused->measured);
      EXPECT_EQ(s.fused->runs_apart, c.apart);
      EXPECT_DOUBLE_EQ(s.fused->fused_us, c.whole);
      EXPECT_DOUBLE_EQ(s.fused->apart_us, c.image + c.conv + c.pool);
      EXPECT_EQ(s.node->sources, whole.node->sources);
    }
  }
}

TEST_F(FirstLayersTest, take_the_way_of_the_lower_estimate_where_nothing_is_measured) {
  for (const int64_t images : {1, 4, 32, 256})
    for (const DType given : {DType::u8, DType::f32, DType::f16}) {
      Planned p(layer(images, given), 0);
      ASSERT_EQ(p.ops(), one);
      const NodeId id = p.layer().id;
      FirstLayers(p.apart).apply(p.segment, *p.context, true);
      const auto at = std::ranges::find(p.segment.steps, id, &Step::id);
      ASSERT_TRUE(at != p.segment.steps.end() && at->fused);
      EXPECT_FALSE(at->fused->measured);
      EXPECT_EQ(at->fused->runs_apart, at->fused->fused_us >= 0.9 * at->fused->apart_us) << images;
      EXPECT_EQ(at->fused->runs_apart, p.ops() != one);
    }
}

TEST_F(FirstLayersTest, run_as_a_plan_says_that_carries_the_choice) {
  for (const bool apart : {true, false}) {
    Planned p(layer(1), 0);
    std::set<std::string> entries;
    if (apart) entries.insert("first layer " + p.layer().node->name);
    p.apart.carry(std::move(entries));
    FirstLayers(p.apart).apply(p.segment, *p.context, true);
    EXPECT_EQ(p.ops(), apart ? parts : one);
  }
}

TEST_F(FirstLayersTest, run_apart_where_no_kernel_takes_them) {
  Planned p(layer(1), 0);
  const Step whole = p.layer();
  const auto split = [&](const ops::Machine& machine, const Target& target, const std::string& tactics) {
    Options o = for_arch("sm_90a");
    o.tactics = tactics;
    Context other(machine, o, target, tune::Cache::in_memory());
    Segment s = p.segment;
    FirstLayers(p.apart).split_refused(s, other);
    return std::ranges::none_of(s.steps, [](const Step& step) { return ops::conv::is_stem(*step.node); });
  };
  const Target gpu{.is_host = false, .block_alignment = 256};
  EXPECT_FALSE(split(p.context->tuner.machine(), gpu, ""));
  EXPECT_TRUE(split(p.context->tuner.machine(), gpu, "-stem"));
  EXPECT_TRUE(split(ops::this_machine(1), Target{}, ""));
}

/// A processor has no kernel of its own: its plan of a graph that has them runs the parts, and computes the same.
TEST(FirstLayers, run_apart_on_a_processor) {
  Graph g = layer(1, DType::f32, 16);
  fuse::run(g, fuse_options(for_arch("sm_90a")));
  const std::vector<Tensor> in = {random_tensor({1, 3, 56, 56}, 9)}, want = ops::evaluate(g, in);
  const auto execution = Plan::build(std::move(g), quick())->execution();
  execution->bind(in);
  execution->run();
  expect_same(execution->outputs()[0], want[0], 2e-3);
  std::vector<std::string> ops;
  for (const StepInfo& s : execution->steps()) ops.push_back(s.op);
  EXPECT_EQ(std::ranges::count(ops, "ai.smelt.StemConv"), 0);
  EXPECT_EQ(std::ranges::count(ops, "MaxPool"), 1);
}

}  // namespace
}  // namespace smelt::plan
