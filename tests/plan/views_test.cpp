// Movement that need not move: where the outputs of a view lie, and which steps of a plan for a GPU are left.
#include "plan/views.h"
#include "device/cuda/compiler.h"
#include "plan/shapes.h"
#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

using Ints = std::vector<int64_t>;

TEST(Views, a_reshape_of_strides_needs_one_stride_an_axis) {
  EXPECT_EQ(reshaped_strides({4, 6}, {6, 1}, {2, 2, 3, 2}), (Shape{12, 6, 2, 1}));
  EXPECT_EQ(reshaped_strides({4, 6}, {10, 1}, {2, 2, 3, 2}), (Shape{20, 10, 2, 1}));
  EXPECT_EQ(reshaped_strides({4, 6}, {10, 1}, {24}), std::nullopt) << "rows with gaps are not one axis";
  EXPECT_EQ(reshaped_strides({2, 2, 3}, {6, 3, 1}, {4, 3}), (Shape{3, 1}));
  EXPECT_EQ(reshaped_strides({2, 2, 3}, {3, 6, 1}, {4, 3}), std::nullopt) << "transposed";
  EXPECT_EQ(reshaped_strides({4, 6}, {6, 1}, {3, 8}), (Shape{8, 1}));
  EXPECT_EQ(reshaped_strides({4, 6}, {10, 1}, {3, 8}), std::nullopt);
  EXPECT_EQ(reshaped_strides({1, 5, 1}, {99, 7, 3}, {5}), (Shape{7})) << "strides along axes of 1 do not count";
  EXPECT_EQ(reshaped_strides({5}, {7}, {1, 5, 1, 1}), (Shape{35, 7, 1, 1}));
  EXPECT_EQ(reshaped_strides({1, 1}, {3, 3}, {}), Shape{});
}

/// A step of a graph of one node: y[…] = op(x [6, 4, 5], …).
struct OneStep {
  Builder b;
  Segment s;
  Tensor x = random_tensor({6, 4, 5}, 1);
  std::vector<Tensor> expected;

  OneStep(const std::string& op, const std::vector<Ints>& constants, const std::vector<Shape>& outputs,
          std::map<std::string, Attribute> attrs = {}) {
    std::vector<ValueId> in{b.input("x", to_sym({6, 4, 5}))};
    for (const Ints& c : constants) in.push_back(b.ints(c));
    std::vector<ValueId> out;
    for (const Shape& y : outputs) out.push_back(b.g.add_value("y" + std::to_string(out.size()), DType::f32, to_sym(y)));
    b.g.add_node({.op = op, .name = "y", .inputs = in, .outputs = out, .attrs = std::move(attrs)});
    for (ValueId v : out) b.output(v);
    expected = ops::evaluate(b.g, std::vector{x});
    const auto order = b.g.topological();
    Environment env(b.g, order);
    env.set(b.g.inputs()[0], DType::f32, {6, 4, 5});
    s = plan_segment(b.g, order, env, false);
  }
  const Step& step() const { return s.steps.at(0); }
};

/// The elements that the views say, gathered one by one, against what the operator gives.
void expect_views(const OneStep& o, const Shape& from, const Tensor& memory) {
  const auto views = strided_views(o.s, o.step(), from);
  ASSERT_TRUE(views);
  ASSERT_EQ(views->size(), o.expected.size());
  for (size_t i = 0; i < views->size(); ++i) {
    const Tensor& y = o.expected[i];
    const Shape dense = strides(y.shape());
    for (int64_t e = 0; e < y.size(); ++e) {
      int64_t at = (*views)[i].offset, rest = e;
      for (size_t a = 0; a < dense.size(); rest %= dense[a], ++a) at += rest / dense[a] * (*views)[i].strides[a];
      ASSERT_EQ(memory.data<float>()[at], y.data<float>()[e]) << "output " << i << ", element " << e;
    }
  }
}

/// x once dense, and once as the middle of rows of 9.
void expect_views(const OneStep& o) {
  expect_views(o, {20, 5, 1}, o.x);
  const Tensor wide = random_tensor({6 * 4 * 9 + 9}, 2);
  Tensor apart = wide.clone();
  for (int64_t r = 0; r < 24; ++r)
    for (int64_t c = 0; c < 5; ++c) apart.data<float>()[r * 9 + c] = o.x.data<float>()[r * 5 + c];
  expect_views(o, {36, 9, 1}, apart);
}

TEST(Views, are_where_the_operator_puts_its_elements) {
  expect_views(OneStep("Transpose", {}, {{5, 6, 4}}, {{"perm", Ints{2, 0, 1}}}));
  expect_views(OneStep("Transpose", {}, {{5, 4, 6}}));
  expect_views(OneStep("Reshape", {{2, 3, 2, 2, 5}}, {{2, 3, 2, 2, 5}}));
  expect_views(OneStep("Unsqueeze", {{1}}, {{6, 1, 4, 5}}));
  expect_views(OneStep("Slice", {{1, -4}, {5, 4}, {0, 2}}, {{4, 4, 3}}));
  expect_views(OneStep("Slice", {{1}, {6}, {0}, {2}}, {{3, 4, 5}}));
  expect_views(OneStep("Split", {{1, 3}}, {{6, 1, 5}, {6, 3, 5}}, {{"axis", int64_t{1}}}));
  expect_views(OneStep("Split", {}, {{6, 4, 3}, {6, 4, 2}}, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}}));
  expect_views(OneStep("Gather", {{-1}}, {{6, 1, 5}}, {{"axis", int64_t{1}}}));
}

TEST(Views, of_one_element_by_a_step_beyond_all_extents_have_strides_that_do_not_wrap) {
  const OneStep huge("Slice", {{2}, {3}, {0}, {INT64_MAX}}, {{1, 4, 5}});
  expect_views(huge);
  EXPECT_EQ(strided_views(huge.s, huge.step(), {20, 5, 1})->front().strides, (Shape{20, 5, 1}));
}

TEST(Views, are_not_what_moves_elements_otherwise) {
  const OneStep backwards("Slice", {{-1}, {-7}, {0}, {-1}}, {{6, 4, 5}}), several("Gather", {{2, 0}}, {{2, 4, 5}}),
      flat("Reshape", {{24, 5}}, {{24, 5}}), computes("Neg", {}, {{6, 4, 5}});
  EXPECT_FALSE(strided_views(backwards.s, backwards.step(), {20, 5, 1}));
  EXPECT_FALSE(strided_views(several.s, several.step(), {20, 5, 1}));
  EXPECT_FALSE(strided_views(flat.s, flat.step(), {5, 30, 1}));
  EXPECT_FALSE(strided_views(computes.s, computes.step(), {20, 5, 1}));
}

TEST(Views, the_strides_before_are_those_that_lead_to_the_strides_after) {
  for (const OneStep& o :
       {OneStep("Transpose", {}, {{5, 6, 4}}, {{"perm", Ints{2, 0, 1}}}), OneStep("Reshape", {{6, 2, 2, 5}}, {{6, 2, 2, 5}})}) {
    const Shape y = o.expected[0].shape();
    const auto before = strides_before(o.s, o.step(), strides(y));
    ASSERT_TRUE(before);
    EXPECT_EQ(strided_views(o.s, o.step(), *before)->front().strides, strides(y));
  }
}

/// What a plan for an H100 launches, by the operators' names.
std::vector<std::string> launched(Graph g) {
  Options o = quick();
  o.arch = "sm_90a";
  const auto plan = Plan::build(std::move(g), o);
  std::vector<std::string> ops;
  for (const StepInfo& s : plan->steps()) ops.push_back(s.op);
  return ops;
}

class GpuViews : public testing::Test {
  void SetUp() override {
    if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  }
};

TEST_F(GpuViews, heads_are_cut_from_one_projection_and_merged_without_a_copy) {
  EXPECT_EQ(launched(attention_block(DType::f16)), (std::vector<std::string>{"MatMul", "ai.smelt.Attention", "MatMul"}));
}

TEST_F(GpuViews, what_a_cache_held_is_copied_by_a_kernel_and_what_comes_is_written_in_its_place) {
  Builder b;
  const ValueId past = b.input("past", to_sym({2, 4, 64, 32}), DType::f16), x = b.input("x", to_sym({2, 4, 1, 32}), DType::f16);
  const ValueId fresh = b.node("fresh", "Tanh", {x}, to_sym({2, 4, 1, 32}), DType::f16);
  b.output(b.node("present", "Concat", {past, fresh}, to_sym({2, 4, 65, 32}), DType::f16, {{"axis", int64_t{2}}}));
  EXPECT_EQ(launched(std::move(b.g)), (std::vector<std::string>{"Tanh", "ai.smelt.Reorder"}));
}

TEST_F(GpuViews, what_lies_in_one_run_of_memory_is_left_to_the_driver) {
  Builder b;
  const ValueId x = b.input("x", to_sym({4, 64})), y = b.input("y", to_sym({4, 64}));
  b.output(b.node("both", "Concat", {x, y}, to_sym({8, 64}), DType::f32, {{"axis", int64_t{0}}}));
  EXPECT_EQ(launched(std::move(b.g)), (std::vector<std::string>{"Concat"}));
}

TEST_F(GpuViews, a_transformer_block_between_convolutions_converts_no_layout) {
  // As in a diffusion model: pixels of a channels-last image are rows of tokens as they lie.
  constexpr int64_t channels = 64, side = 16;
  const SymShape image = to_sym({2, channels, side, side}), flat = to_sym({2, channels, side * side}),
                 tokens = to_sym({2, side * side, channels});
  Builder b;
  const auto conv = [&](const std::string& name, ValueId x) {
    const ValueId w = b.weights(name + ".weight", {channels, channels, 1, 1}, DType::f16);
    return b.node(name, "Conv", {x, w}, image, DType::f16);
  };
  const auto reshaped = [&](const std::string& name, ValueId x, const Shape& to) {
    return b.node(name, "Reshape", {x, b.ints(to)}, to_sym(to), DType::f16);
  };
  const auto turned = [&](const std::string& name, ValueId x, const SymShape& to) {
    return b.node(name, "Transpose", {x}, to, DType::f16, {{"perm", Ints{0, 2, 1}}});
  };
  ValueId v = conv("first", b.input("x", image, DType::f16));
  v = turned("to_tokens", reshaped("flat", v, {2, channels, side * side}), tokens);
  v = b.node("normal", "LayerNormalization", {v, b.weights("scale", {channels}, DType::f16)}, tokens, DType::f16,
             {{"axis", int64_t{-1}}});
  v = b.node("product", "MatMul", {v, b.weights("w", {channels, channels}, DType::f16)}, tokens, DType::f16);
  v = reshaped("image", turned("from_tokens", v, flat), {2, channels, side, side});
  b.output(conv("second", v));
  // The product normalises its rows itself.
  const std::vector<std::string> expected{"ai.smelt.Reorder", "Conv", "ai.smelt.MatMul", "Conv", "ai.smelt.Reorder"};
  EXPECT_EQ(launched(std::move(b.g)), expected) << "at the ends, whose images ONNX has plain";
}

TEST_F(GpuViews, a_result_is_dense_in_memory_of_its_own) {
  Builder b;
  const ValueId x = b.input("x", to_sym({8, 64, 128}), DType::f16);
  const ValueId relu = b.node("relu", "Relu", {x}, to_sym({8, 64, 128}), DType::f16);
  const ValueId turned = b.node("turned", "Transpose", {relu}, to_sym({64, 8, 128}), DType::f16, {{"perm", Ints{1, 0, 2}}});
  b.output(turned);
  EXPECT_EQ(launched(clone(b.g)), (std::vector<std::string>{"Relu"})) << "written where the transpose would put it";
  b.output(relu);
  EXPECT_EQ(launched(std::move(b.g)), (std::vector<std::string>{"Relu", "Transpose"})) << "both are results";
}

TEST_F(GpuViews, a_reader_that_follows_no_strides_keeps_the_copy) {
  Builder b;
  const ValueId x = b.input("x", to_sym({8, 64, 128}), DType::f16);
  const ValueId turned = b.node("turned", "Transpose", {x}, to_sym({64, 8, 128}), DType::f16, {{"perm", Ints{1, 0, 2}}});
  b.output(b.node("sum", "CumSum", {turned, b.constant("axis", Tensor::scalar<int64_t>(2))}, to_sym({64, 8, 128}), DType::f16));
  EXPECT_EQ(launched(std::move(b.g)), (std::vector<std::string>{"Transpose", "CumSum"}));
}

}  // namespace
}  // namespace smelt::plan
