#include <gtest/gtest.h>

#include <algorithm>

#include "device/cuda/compiler.h"
#include "ops/core/machine.h"
#include "plan/context.h"
#include "plan/layouts.h"
#include "plan/machine.h"
#include "plan/shapes.h"
#include "smelt/session.h"
#include "support/graphs.h"
#include "support/image_network.h"

namespace smelt::plan {

using namespace test;

namespace {

/// A small network of images: convolutions around a residual addition, a pooling and a concatenation along the channels.
struct Images {
  Builder b;
  ValueId x;
  int constants = 0;

  explicit Images(Shape shape) : x(b.input("x", to_sym(shape))) {}
  ValueId constant(Shape shape) {
    ++constants;
    return b.constant("c" + std::to_string(constants), random_tensor(shape, static_cast<unsigned>(constants)));
  }
  ValueId conv(const std::string& name, ValueId in, int64_t from, int64_t to, int64_t window, Shape out, int64_t stride = 1) {
    const int64_t pad = window / 2;
    return b.node(name, "Conv", {in, constant({to, from, window, window}), constant({to})}, to_sym(out), DType::f32,
                  {{"pads", std::vector<int64_t>{pad, pad, pad, pad}}, {"strides", std::vector<int64_t>{stride, stride}}});
  }
  ValueId node(const std::string& name, const std::string& op, std::vector<ValueId> in, Shape out,
               std::map<std::string, Attribute> attrs = {}) {
    return b.node(name, op, std::move(in), to_sym(out), DType::f32, std::move(attrs));
  }
};

TEST(Layouts, without_optimising_nothing_is_reordered_between_operators_and_concatenations_copy) {
  Images n({1, 16, 16, 18});
  const ValueId a = n.conv("a", n.x, 16, 8, 3, {1, 8, 16, 18}), b = n.conv("b", n.x, 16, 8, 3, {1, 8, 16, 18});
  const ValueId c = n.node("both", "Concat", {a, b}, {1, 16, 16, 18}, {{"axis", int64_t{1}}});
  n.b.g.add_output(n.conv("c", c, 16, 16, 3, {1, 16, 16, 18}));
  const auto ops = run_and_compare(std::move(n.b.g), unfused());
  EXPECT_EQ(ops, (std::vector<std::string>{"Conv", "Conv", "Concat", "Conv"}));
}

TEST(Layouts, a_region_of_images_is_reordered_only_where_it_ends) {
  Images n({1, 3, 16, 18});
  ValueId v = n.conv("stem", n.x, 3, 16, 3, {1, 16, 16, 18});
  const ValueId r = n.node("relu", "Relu", {v}, {1, 16, 16, 18});
  v = n.conv("deep", r, 16, 16, 3, {1, 16, 16, 18});
  v = n.node("add", "Add", {v, r}, {1, 16, 16, 18});
  v = n.node("pool", "MaxPool", {v}, {1, 16, 8, 9},
             {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
  n.b.g.add_output(v);
  const auto ops = run_and_compare(std::move(n.b.g));
  EXPECT_LE(std::ranges::count(ops, "ai.smelt.Reorder"), 3);
  EXPECT_EQ(ops.back(), "ai.smelt.Reorder");
}

TEST(Layouts, images_of_any_number_of_axes_are_channels_last_on_a_gpu) {
  for (const size_t axes : {1, 2, 3}) {
    const auto plan = Plan::build(image_network(axes, DType::f16), for_arch("sm_90a"));
    for (const StepInfo& step : plan->steps()) {
      if (!step.op.ends_with("Conv")) continue;
      EXPECT_NE(step.problem.find(":nhwc"), std::string::npos) << step.problem;
    }
  }
}

TEST(Layouts, a_concatenation_of_channels_is_never_copied) {
  Images n({1, 8, 10, 12});
  const ValueId a = n.conv("a", n.x, 8, 12, 3, {1, 12, 10, 12});
  const ValueId c = n.conv("c", n.x, 8, 20, 1, {1, 20, 10, 12});
  const ValueId joined = n.node("join", "Concat", {a, c}, {1, 32, 10, 12}, {{"axis", int64_t{1}}});
  const ValueId y = n.conv("y", joined, 32, 8, 3, {1, 8, 10, 12});
  n.b.g.add_output(y);
  const auto ops = run_and_compare(std::move(n.b.g));
  EXPECT_EQ(std::ranges::count(ops, "Concat"), 0);
}

TEST(Layouts, a_constant_joins_images_along_any_axis) {
  for (const int64_t axis : {1, 2}) {
    for (const bool first : {false, true}) {
      Images n({1, 8, 10, 12});
      const ValueId a = n.conv("a", n.x, 8, 12, 3, {1, 12, 10, 12});
      Shape more{1, 12, 10, 12}, all = more;
      const auto at = static_cast<size_t>(axis);
      more[at] = 5, all[at] += 5;
      std::vector<ValueId> parts{a, n.constant(more)};
      if (first) std::swap(parts[0], parts[1]);
      const ValueId joined = n.node("join", "Concat", parts, all, {{"axis", axis}});
      n.b.g.add_output(n.conv("y", joined, all[1], 8, 1, {1, 8, all[2], 12}));
      const auto ops = run_and_compare(std::move(n.b.g));
      EXPECT_LE(std::ranges::count(ops, "ai.smelt.Reorder"), 3);  // of the input, the constant and the result
    }
  }
}

TEST(Layouts, a_slice_that_another_convolution_reads_too_stays_in_its_place) {
  Images n({2, 8, 6, 7});
  const ValueId a = n.conv("a", n.x, 8, 12, 3, {2, 12, 6, 7});
  const ValueId c = n.conv("c", a, 12, 20, 3, {2, 20, 6, 7});
  const ValueId joined = n.node("join", "Concat", {a, c}, {2, 32, 6, 7}, {{"axis", int64_t{1}}});
  n.b.g.add_output(n.conv("y", joined, 32, 8, 1, {2, 8, 6, 7}));
  const auto ops = run_and_compare(std::move(n.b.g));
  EXPECT_EQ(std::ranges::count(ops, "Concat"), 0);
}

TEST(Layouts, an_input_copied_into_a_concatenation_that_is_a_slice_of_another) {
  Images n({2, 8, 6, 7});
  const ValueId a = n.conv("a", n.x, 8, 12, 3, {2, 12, 6, 7});
  const ValueId c = n.conv("c", n.x, 8, 20, 1, {2, 20, 6, 7});
  const ValueId twice = n.node("twice", "Concat", {a, a}, {2, 24, 6, 7}, {{"axis", int64_t{1}}});
  const ValueId joined = n.node("join", "Concat", {twice, c}, {2, 44, 6, 7}, {{"axis", int64_t{1}}});
  n.b.g.add_output(n.conv("y", joined, 44, 8, 1, {2, 8, 6, 7}));
  const auto ops = run_and_compare(std::move(n.b.g));
  EXPECT_LE(std::ranges::count(ops, "Concat"), 1);
}

TEST(Layouts, parts_of_images_and_what_lies_around_them_stay_channels_last) {
  Images n({1, 8, 10, 12});
  const auto list = [&](std::vector<int64_t> v) {
    ++n.constants;
    return n.b.constant("l" + std::to_string(n.constants), Tensor::of<int64_t>({static_cast<int64_t>(v.size())}, v));
  };
  ValueId v = n.conv("a", n.x, 8, 16, 3, {1, 16, 10, 12});
  const ValueId left = n.node("left", "Slice", {v, list({-2}), list({12}), list({3})}, {1, 16, 10, 2});
  const ValueId right = n.node("right", "Slice", {v, list({0}), list({2}), list({3})}, {1, 16, 10, 2});
  v = n.node("circular", "Concat", {left, v, right}, {1, 16, 10, 16}, {{"axis", int64_t{3}}});
  v = n.conv("b", v, 16, 16, 3, {1, 16, 10, 16});
  v = n.node("mirrored", "Pad", {v, list({0, 0, 1, 2, 0, 0, 1, 0})}, {1, 16, 12, 18}, {{"mode", std::string("reflect")}});
  v = n.conv("c", v, 16, 24, 3, {1, 24, 12, 18});
  n.b.g.add_output(v);
  const auto ops = run_and_compare(std::move(n.b.g));
  EXPECT_LE(std::ranges::count(ops, "ai.smelt.Reorder"), 2);
}

TEST(Layouts, a_depthwise_convolution_that_no_tactic_runs_channels_last_stays_plain) {
  for (const int64_t extent : {2, 3, 9}) {
    const int64_t out = (extent - 1) / 2 + 1;
    Images n({1, 8, extent, extent});
    const ValueId a = n.conv("a", n.x, 8, 64, 1, {1, 64, extent, extent});
    const ValueId d =
        n.b.node("d", "Conv", {a, n.constant({64, 1, 3, 3}), n.constant({64})}, to_sym({1, 64, out, out}), DType::f32,
                 {{"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"strides", std::vector<int64_t>{2, 2}}, {"group", int64_t{64}}});
    n.b.g.add_output(n.conv("y", d, 64, 8, 1, {1, 8, out, out}));
    run_and_compare(std::move(n.b.g));
  }
}

TEST(Layouts, a_depthwise_convolution_over_halves_is_computed_in_floats) {
  for (const char* precision : {"fp16", "bf16"}) {
    Images n({2, 8, 9, 11});
    const ValueId a = n.conv("a", n.x, 8, 24, 1, {2, 24, 9, 11});
    const ValueId d =
        n.b.node("d", "Conv", {a, n.constant({24, 1, 3, 3}), n.constant({24})}, to_sym({2, 24, 5, 6}), DType::f32,
                 {{"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"strides", std::vector<int64_t>{2, 2}}, {"group", int64_t{24}}});
    n.b.g.add_output(n.conv("y", d, 24, 8, 1, {2, 8, 5, 6}));
    const Tensor x = random_tensor({2, 8, 9, 11}, 99);
    const Tensor want = ops::evaluate(n.b.g, std::vector{x})[0];
    Options options = quick();
    options.precision = precision;
    const auto execution = Plan::build(std::move(n.b.g), options)->execution();
    execution->bind(std::vector{x});
    execution->run();
    expect_same(execution->outputs()[0], want, precision == std::string("fp16") ? 0.01 : 0.08);
    for (const StepInfo& s : execution->steps()) {
      EXPECT_FALSE(s.op == "Conv" && s.tactic == "reference") << s.problem;
    }
  }
}

TEST(Layouts, the_references_alone_run_images_too) {
  Images n({1, 8, 6, 7});
  const ValueId a = n.conv("a", n.x, 8, 12, 3, {1, 12, 6, 7});
  n.b.g.add_output(n.node("pool", "MaxPool", {a}, {1, 12, 3, 3},
                          {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}}));
  Options options = quick();
  options.tactics = "-all,+reference";
  const auto ops = run_and_compare(std::move(n.b.g), options);
  EXPECT_EQ(ops, (std::vector<std::string>{"Conv", "MaxPool"}));
}

TEST(Layouts, what_no_tactic_runs_channels_last_stays_plain) {
  Images n({1, 8, 6, 7});
  ValueId v = n.conv("a", n.x, 8, 12, 3, {1, 12, 6, 7});
  v = n.node("turn", "Transpose", {v}, {1, 7, 6, 12}, {{"perm", std::vector<int64_t>{0, 3, 2, 1}}});
  n.b.g.add_output(v);
  run_and_compare(std::move(n.b.g));
}

/// The strides of what a convolution of f16 to so many channels writes in an H100's plan, and whether its image is pooled too.
Shape strides_of_result(int64_t channels, bool pooled) {
  using Ints = std::vector<int64_t>;
  Builder b;
  const SymShape y = to_sym({2, channels, 20, 20});
  const ValueId x = b.input("x", to_sym({2, 64, 20, 20}), DType::f16);
  const ValueId conv = b.node("conv", "Conv", {x, b.weights("w", {channels, 64, 1, 1}, DType::f16)}, y, DType::f16);
  b.output(conv);
  if (pooled)
    b.output(b.node("pool", "MaxPool", {conv}, to_sym({2, channels, 10, 10}), DType::f16,
                    {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}));
  Graph g = std::move(b.g);
  const Options o = for_arch("sm_90a");
  EmbeddedKernels none;
  Context context(machine_for(o, false, none), o, Target{.is_host = false, .block_alignment = 256}, tune::Cache::in_memory());
  const std::vector<NodeId> order = g.topological();
  Environment env(g, order);
  env.set(g.inputs()[0], DType::f16, {2, 64, 20, 20});
  Segment s = plan_segment(g, order, env, true);
  assign_layouts(s, context.tuner);
  const auto step = std::ranges::find_if(s.steps, [](const Step& one) { return one.node->op == "Conv"; });
  return s.tensor(step->outputs[0]).strides;
}

TEST(Layouts, pixels_that_reorders_alone_read_begin_at_whole_vectors_on_a_gpu) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  EXPECT_EQ(strides_of_result(255, false), (Shape{20 * 20 * 256, 1, 20 * 256, 256}));
  EXPECT_EQ(strides_of_result(84, false), (Shape{20 * 20 * 88, 1, 20 * 88, 88}));
  EXPECT_EQ(strides_of_result(256, false), Shape{}) << "they do";
  EXPECT_EQ(strides_of_result(9, false), Shape{}) << "16 are too many for 9";
  EXPECT_EQ(strides_of_result(255, true), Shape{}) << "a pooling reads them";
}

}  // namespace
}  // namespace smelt::plan
