#include "run/precision.h"

#include "graphs.h"

namespace smelt::run {
namespace {

/// y = relu(x · w + b), z = y + 1, both outputs
Graph two_layers() {
  Builder b;
  const ValueId x = b.input("x", to_sym({3, 4}));
  const ValueId m = b.node("m", "MatMul", {x, b.weights("w", {4, 5})}, to_sym({3, 5}));
  const ValueId a = b.node("a", "Add", {m, b.weights("b", {5})}, to_sym({3, 5}));
  const ValueId y = b.node("y", "Relu", {a}, to_sym({3, 5}));
  b.output(y);
  b.output(b.node("z", "Add", {y, b.scalar(1)}, to_sym({3, 5})));
  return std::move(b.g);
}

DType output_type(const Graph& g, const std::string& node) { return g.value(g.node(g.find_node(node)).outputs[0]).type; }

TEST(Precision, inputs_and_outputs_keep_their_names_and_types) {
  Graph g = two_layers();
  EXPECT_EQ(convert_precision(g, "bf16", {}), 4);
  verify(g);
  EXPECT_EQ(g.value(g.inputs()[0]).type, DType::f32);
  EXPECT_EQ(g.value(g.outputs()[0]).name, "y_out");
  EXPECT_EQ(g.value(g.outputs()[0]).type, DType::f32);
  EXPECT_EQ(g.value(g.outputs()[1]).type, DType::f32);
  EXPECT_EQ(output_type(g, "m"), DType::bf16);
  EXPECT_EQ(output_type(g, "z"), DType::bf16);
}

TEST(Precision, the_result_is_near_the_fp32_one_and_not_equal_to_it) {
  const Graph g = two_layers();
  const Tensor x = random_tensor({3, 4}, 1);
  const auto expected = ops::evaluate(g, std::vector{x});
  for (const char* precision : {"fp16", "bf16"}) {
    Graph low = clone(g);
    convert_precision(low, precision, {});
    const auto found = ops::evaluate(low, std::vector{x});
    for (size_t i = 0; i < found.size(); ++i) {
      expect_same(found[i], expected[i], 0.03);
      EXPECT_NE(found[i].to_doubles(), expected[i].to_doubles());
    }
  }
}

TEST(Precision, kept_nodes_stay_in_fp32_between_casts) {
  Graph g = two_layers();
  EXPECT_EQ(convert_precision(g, "fp16", {"a"}), 3);
  verify(g);
  EXPECT_EQ(output_type(g, "m"), DType::f16);
  EXPECT_EQ(output_type(g, "a"), DType::f32);
  EXPECT_EQ(output_type(g, "y"), DType::f16);
}

TEST(Precision, a_pattern_that_keeps_nothing_is_an_error) {
  Graph g = two_layers();
  EXPECT_THROW(convert_precision(g, "fp16", {"encoder.*"}), Error);
}

TEST(Precision, another_name_is_an_error) {
  Graph g = two_layers();
  EXPECT_THROW(convert_precision(g, "fp8", {}), Error);
}

TEST(Precision, tf32_changes_nothing_in_the_graph) {
  Graph g = two_layers();
  EXPECT_EQ(convert_precision(g, "tf32", {}), 0);
  EXPECT_EQ(print(g), print(two_layers()));
}

TEST(Precision, a_mask_of_the_lowest_float_stays_finite_in_fp16) {
  Builder b;
  const ValueId x = b.input("x", to_sym({2}));
  b.output(b.node("y", "Add", {x, b.constant("mask", Tensor::of<float>({2}, {-3.4e38f, 0}))}, to_sym({2})));
  convert_precision(b.g, "fp16", {});
  const auto y = ops::evaluate(b.g, std::vector{Tensor::of<float>({2}, {0, 1})})[0].to_doubles();
  EXPECT_EQ(y[0], -65504);
}

TEST(Precision, cast_to_fp32_becomes_a_cast_to_the_lower_type) {
  Builder b;
  const ValueId x = b.input("x", to_sym({2}), DType::i64);
  const ValueId c = b.node("c", "Cast", {x}, to_sym({2}), DType::f32, {{"to", static_cast<int64_t>(DType::f32)}});
  b.output(b.node("y", "Neg", {c}, to_sym({2})));
  convert_precision(b.g, "bf16", {});
  verify(b.g);
  EXPECT_EQ(output_type(b.g, "c"), DType::bf16);
  EXPECT_EQ(ops::evaluate(b.g, std::vector{Tensor::of<int64_t>({2}, {3, -4})})[0].to_doubles(), (std::vector<double>{-3, 4}));
}

TEST(Precision, resize_scales_stay_fp32) {
  Builder b;
  const ValueId x = b.input("x", to_sym({1, 1, 2, 2}));
  const ValueId scales = b.constant("scales", Tensor::of<float>({4}, {1, 1, 2, 2}));
  b.output(b.node("r", "Resize", {x, ValueId::none, scales}, to_sym({1, 1, 4, 4}), DType::f32, {{"mode", std::string("nearest")}}));
  convert_precision(b.g, "fp16", {});
  verify(b.g);
  EXPECT_EQ(b.g.value(b.g.node(b["r"]).inputs[2]).type, DType::f32);
  EXPECT_EQ(output_type(b.g, "r"), DType::f16);
}

TEST(Pattern, star_and_question_mark) {
  EXPECT_TRUE(matches("layer?.conv*", "layer1.conv2.weight"));
  EXPECT_TRUE(matches("*norm*", "block.3.layernorm"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_FALSE(matches("norm", "layernorm"));
  EXPECT_FALSE(matches("a*b*c", "a1b2"));
  EXPECT_TRUE(matches("a*b*c", "aXbYbZc"));
}

}  // namespace
}  // namespace smelt::run
