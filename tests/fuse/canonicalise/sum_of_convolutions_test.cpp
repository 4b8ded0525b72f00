#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/conv_builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

using testing::ElementsAre;
using Attributes = std::map<std::string, Attribute>;
using Ints = std::vector<int64_t>;

/// "conv", 3 x 3 of x, and what is added to it; then Relu.
struct SumBuilder : ConvBuilder {
  explicit SumBuilder(DType type = DType::f32) : ConvBuilder(type) {}

  ValueId branch(const Shape& window, Attributes attrs, bool bias = true) {
    std::vector<ValueId> inputs{x, weights("v", window)};
    if (bias) inputs.push_back(weights("c", {window[0]}));
    return node("branch", "Conv", inputs, image, DType::f32, std::move(attrs));
  }
  ValueId norm(ValueId of) {
    const ValueId var = constant("var", Tensor::of({4}, std::vector<float>{1, 0.5f, 2, 4}));
    return node("norm", "BatchNormalization", {of, weights("scale", {4}), weights("shift", {4}), weights("mean", {4}), var},
                image);
  }
  void add(ValueId other, bool second = true) {
    const std::vector<ValueId> terms = second ? std::vector<ValueId>{conv, other} : std::vector<ValueId>{other, conv};
    output(node("out", "Relu", {node("add", "Add", terms, image, g.value(conv).type)}, image, g.value(conv).type));
  }
};

void becomes_one(SumBuilder& b) {
  const Graph before = clone(b.g);
  apply_match(b, sum_of_convolutions, "add");
  EXPECT_EQ(count(b.g, "Conv"), 1u);
  EXPECT_EQ(count(b.g, "Add") + count(b.g, "BatchNormalization"), 0u);
  EXPECT_THAT(b.g.node(b["add"]).get_ints("pads"), ElementsAre(1, 1, 1, 1));
  expect_same_outputs(before, b.g);
}

TEST(SumOfConvolutions, are_one_where_a_window_holds_the_other) {
  for (const bool second : {true, false}) {
    for (const bool bias : {true, false}) {
      SumBuilder point, same, line;
      point.add(point.branch({4, 4, 1, 1}, {}, bias), second);
      becomes_one(point);
      same.add(same.branch({4, 4, 3, 3}, same_size(), bias), second);
      becomes_one(same);
      line.add(line.branch({4, 4, 3, 1}, {{"pads", Ints{1, 0, 1, 0}}}, bias), second);
      becomes_one(line);
    }
  }
}

TEST(SumOfConvolutions, are_one_with_groups_strides_and_dilations) {
  struct Form {
    Shape large, small;
    Attributes large_attrs, small_attrs;
    SymShape result;
  };
  for (const Form& f :
       {Form{{4, 1, 3, 3}, {4, 1, 1, 1}, {{"pads", Ints{1, 1, 1, 1}}, {"group", int64_t{4}}}, {{"group", int64_t{4}}}, image},
        Form{{6, 2, 3, 3},
             {6, 2, 1, 1},
             {{"pads", Ints{1, 1, 1, 1}}, {"group", int64_t{2}}, {"strides", Ints{2, 2}}},
             {{"group", int64_t{2}}, {"strides", Ints{2, 2}}},
             {1, 6, 4, 4}},
        Form{{4, 4, 3, 3},
             {4, 4, 2, 2},
             {{"pads", Ints{2, 2, 2, 2}}, {"dilations", Ints{2, 2}}},
             {{"pads", Ints{0, 2, 2, 0}}, {"dilations", Ints{2, 2}}},
             image},
        Form{{4, 4, 2, 5}, {4, 4, 1, 2}, {{"pads", Ints{1, 3, 0, 1}}}, {{"pads", Ints{0, 0, 0, 1}}}, image}}) {
    Builder b;
    const ValueId x = b.input("x", image);
    const ValueId large = b.node("large", "Conv", {x, b.weights("w", f.large)}, f.result, DType::f32, f.large_attrs);
    const ValueId small = b.node("small", "Conv", {x, b.weights("v", f.small)}, f.result, DType::f32, f.small_attrs);
    b.output(b.node("add", "Add", {small, large}, f.result));
    const Graph before = clone(b.g);
    apply_match(b, sum_of_convolutions, "add");
    EXPECT_EQ(count(b.g, "Conv"), 1u);
    expect_same_outputs(before, b.g);
  }
}

TEST(SumOfConvolutions, takes_the_input_and_its_normalization_as_weights) {
  SumBuilder itself, normalized;
  itself.add(itself.x);
  becomes_one(itself);
  normalized.add(normalized.norm(normalized.x), false);
  becomes_one(normalized);
}

TEST(SumOfConvolutions, takes_the_input_of_the_second_of_two_convolutions) {
  SumBuilder b;
  const ValueId next = b.node("next", "Conv", {b.conv, b.weights("v", {4, 4, 1, 1})}, image);
  b.add(next);
  const Graph before = clone(b.g);
  apply_match(b, sum_of_convolutions, "add");
  EXPECT_EQ(count(b.g, "Conv"), 2u);
  EXPECT_EQ(count(b.g, "Add"), 0u);
  expect_same_outputs(before, b.g);
}

TEST(SumOfConvolutions, of_a_whole_block_are_one) {
  SumBuilder b;
  const ValueId sum = b.node("first", "Add", {b.norm(b.x), b.branch({4, 4, 1, 1}, {})}, image);
  b.add(sum);
  const Graph before = clone(b.g);
  apply_match(b, sum_of_convolutions, "first");
  apply_match(b, sum_of_convolutions, "add");
  EXPECT_EQ(count(b.g, "Conv"), 1u);
  expect_same_outputs(before, b.g);
}

TEST(SumOfConvolutions, stay_apart_where_images_or_taps_differ) {
  SumBuilder strides, beside, wider, grouped;
  strides.add(strides.branch({4, 4, 1, 1}, {{"strides", Ints{2, 2}}}));  // 4 x 4, which would not fit: refused before it is asked
  EXPECT_EQ(verdict(strides, sum_of_convolutions, "add"), "wrong_attribute by add");
  beside.add(beside.branch({4, 4, 1, 1}, {{"pads", Ints{1, 0, 0, 0}}}));  // 9 x 8
  EXPECT_EQ(verdict(beside, sum_of_convolutions, "add"), "wrong_attribute by add");
  wider.add(wider.branch({4, 4, 2, 2}, {{"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{2, 2}}}));
  EXPECT_EQ(verdict(wider, sum_of_convolutions, "add"), "wrong_attribute by add");
  grouped.add(grouped.branch({4, 1, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}, {"group", int64_t{4}}}));
  EXPECT_EQ(verdict(grouped, sum_of_convolutions, "add"), "wrong_shape by add");
}

TEST(SumOfConvolutions, stay_apart_when_padding_is_worked_out) {
  SumBuilder b;
  b.add(b.branch({4, 4, 1, 1}, {{"auto_pad", std::string("SAME_UPPER")}}));
  EXPECT_EQ(verdict(b, sum_of_convolutions, "add"), "wrong_attribute by branch");
}

TEST(SumOfConvolutions, stay_apart_when_a_weight_is_computed) {
  SumBuilder b;
  b.add(b.branch({4, 4, 1, 1}, {}));
  b.g.set_input(b["branch"], 1, b.node("weight", "Relu", {b.input("w3", {4, 4, 1, 1})}, {4, 4, 1, 1}));
  EXPECT_EQ(verdict(b, sum_of_convolutions, "add"), "not_constant by weight");
}

TEST(SumOfConvolutions, stay_apart_when_a_result_has_another_reader) {
  SumBuilder b, outside;
  b.add(b.branch({4, 4, 1, 1}, {}));
  b.output(b.node("other", "Relu", {b.conv}, image));
  EXPECT_EQ(verdict(b, sum_of_convolutions, "add"), "extra_reader by other");
  outside.add(outside.norm(outside.x));
  outside.output(outside.conv);
  EXPECT_EQ(verdict(outside, sum_of_convolutions, "add"), "graph_output by conv");
}

TEST(SumOfConvolutions, leaves_the_input_in_16_bits_and_of_other_channels) {
  SumBuilder half(DType::f16);
  half.add(half.x);
  EXPECT_EQ(verdict(half, sum_of_convolutions, "add"), "wrong_type by add");
  Builder one;
  const ValueId x = one.input("x", {1, 1, 8, 8});
  one.node("add", "Add", {one.node("conv", "Conv", {x, one.weights("w", {4, 1, 1, 1})}, image), x}, image);
  EXPECT_EQ(verdict(one, sum_of_convolutions, "add"), "wrong_shape by conv");
}

TEST(SumOfConvolutions, leaves_residuals) {
  SumBuilder b;
  b.add(b.input("y", image));
  EXPECT_EQ(verdict(b, sum_of_convolutions, "add"), "not here");
}

}  // namespace
}  // namespace smelt::fuse
