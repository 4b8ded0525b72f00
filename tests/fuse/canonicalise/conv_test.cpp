#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/conv_builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

using testing::ElementsAre;

struct NormBuilder : ConvBuilder {
  ValueId norm;
  explicit NormBuilder(const std::string& op = "Conv", int64_t group = 1) : ConvBuilder(DType::f32, group == 1) {
    g.edit((*this)["conv"]).op = op;
    if (group > 1) {
      g.edit((*this)["conv"]).attrs["group"] = group;
      g.set_input((*this)["conv"], 1, weights("w2", {4, 4 / group, 3, 3}));
    }
    std::vector<float> variance{1, 0.5f, 2, 4};
    const ValueId var = constant("var", Tensor::of({4}, variance));
    const ValueId scale = weights("scale", {4}), shift = weights("shift", {4}), mean = weights("mean", {4});
    norm = node("norm", "BatchNormalization", {conv, scale, shift, mean, var}, image);
    output(node("out", "Relu", {norm}, image));
  }
};

TEST(FoldBatchNorm, gives_the_same_result_without_the_normalization) {
  for (const std::string op : {"Conv", "ConvTranspose"}) {
    for (int64_t group : {1, 2}) {
      NormBuilder b(op, group);
      const Graph before = clone(b.g);
      apply_match(b, fold_batch_norm, "norm");
      EXPECT_EQ(count(b.g, "BatchNormalization"), 0u);
      expect_same_outputs(before, b.g);
    }
  }
}

TEST(FoldBatchNorm, stays_apart_when_the_convolution_has_a_second_reader) {
  NormBuilder b;
  b.output(b.node("other", "Relu", {b.conv}, image));
  EXPECT_EQ(verdict(b, fold_batch_norm, "norm"), "extra_reader by other");
}

TEST(FoldBatchNorm, stays_apart_when_the_convolution_is_a_graph_output) {
  NormBuilder b;
  b.output(b.conv);
  EXPECT_EQ(verdict(b, fold_batch_norm, "norm"), "graph_output by conv");
}

TEST(FoldBatchNorm, stays_apart_when_a_parameter_is_computed) {
  NormBuilder b;
  b.g.set_input(b["norm"], 3, b.node("mean", "Relu", {b.input("m", {4})}, {4}));
  EXPECT_EQ(verdict(b, fold_batch_norm, "norm"), "not_constant by mean");
}

TEST(FoldBatchNorm, stays_apart_when_the_weights_are_computed) {
  NormBuilder b;
  b.g.set_input(b["conv"], 1, b.node("weight", "Relu", {b.input("w3", {4, 4, 3, 3})}, {4, 4, 3, 3}));
  EXPECT_EQ(verdict(b, fold_batch_norm, "norm"), "not_constant by weight");
}

TEST(FoldBatchNorm, stays_apart_in_training_mode) {
  NormBuilder b;
  b.g.edit(b["norm"]).attrs["training_mode"] = int64_t{1};
  EXPECT_EQ(verdict(b, fold_batch_norm, "norm"), "wrong_attribute by norm");
}

TEST(FoldBatchNorm, needs_a_convolution) {
  NormBuilder b;
  b.g.set_input(b["norm"], 0, b.node("relu", "Relu", {b.conv}, image));
  EXPECT_EQ(verdict(b, fold_batch_norm, "norm"), "wrong_producer by relu");
}

TEST(BatchNorm, alone_becomes_one_multiplication_and_one_addition) {
  NormBuilder b;
  apply_match(b, batch_norm, "norm");
  const Node& n = b.g.node(b["norm"]);
  EXPECT_TRUE(n.is("Pointwise", smelt_domain));
  EXPECT_EQ(n.program->operations(), 2);
  EXPECT_THAT(b.g.value(n.in(1)).constant.shape(), ElementsAre(4, 1, 1));
}

TEST(BatchNorm, alone_stays_when_a_parameter_is_computed) {
  NormBuilder b;
  b.g.set_input(b["norm"], 1, b.input("m", {4}));
  EXPECT_EQ(verdict(b, batch_norm, "norm"), "not_constant");
}

TEST(BatchNorm, alone_needs_a_rank) {
  NormBuilder b;
  b.g.set_shape(b.conv, std::nullopt);
  EXPECT_EQ(verdict(b, batch_norm, "norm"), "unknown_shape by norm");
}

struct PadBuilder : Builder {
  explicit PadBuilder(std::vector<int64_t> pads, std::map<std::string, Attribute> pad_attrs = {}, double value = 0) {
    const ValueId x = input("x", image);
    const ValueId p = node("pad", "Pad", {x, ints(pads), scalar(value)}, {1, 4, 10, 12}, DType::f32, std::move(pad_attrs));
    output(node("conv", "Conv", {p, weights("w", {4, 4, 3, 3})}, {1, 4, 8, 10}));
  }
};

TEST(PadIntoConv, adds_to_the_convolutions_pads) {
  PadBuilder b({0, 0, 1, 3, 0, 0, 1, 1});
  const Graph before = clone(b.g);
  apply_match(b, pad_into_conv, "conv");
  EXPECT_THAT(b.g.node(b["conv"]).get_ints("pads"), ElementsAre(1, 3, 1, 1));
  expect_same_outputs(before, b.g);
}

TEST(PadIntoConv, follows_the_axes_input) {
  PadBuilder b({3, 1, 1, 1});
  b.g.set_input(b["pad"], 3, b.ints({-1, 2}));
  apply_match(b, pad_into_conv, "conv");
  EXPECT_THAT(b.g.node(b["conv"]).get_ints("pads"), ElementsAre(1, 3, 1, 1));
}

TEST(PadIntoConv, stays_apart_when_padding_is_not_constant_zero) {
  PadBuilder reflect({0, 0, 1, 1, 0, 0, 1, 1}, {{"mode", std::string("reflect")}});
  EXPECT_EQ(verdict(reflect, pad_into_conv, "conv"), "wrong_attribute by pad");
  PadBuilder ones({0, 0, 1, 1, 0, 0, 1, 1}, {}, 1);
  EXPECT_EQ(verdict(ones, pad_into_conv, "conv"), "wrong_value by pad");
  PadBuilder cut({0, 0, -1, 1, 0, 0, 1, 1});
  EXPECT_EQ(verdict(cut, pad_into_conv, "conv"), "wrong_value by pad");
}

TEST(PadIntoConv, stays_apart_when_channels_are_padded) {
  PadBuilder b({0, 1, 1, 1, 0, 0, 1, 1});
  EXPECT_EQ(verdict(b, pad_into_conv, "conv"), "wrong_axis by pad");
}

TEST(PadIntoConv, stays_apart_when_the_amount_is_computed) {
  PadBuilder b({0, 0, 1, 1, 0, 0, 1, 1});
  b.g.set_input(b["pad"], 1, b.input("amount", {8}, DType::i64));
  EXPECT_EQ(verdict(b, pad_into_conv, "conv"), "not_constant");
}

TEST(PadIntoConv, stays_apart_when_something_else_reads_the_padded_value) {
  PadBuilder b({0, 0, 1, 1, 0, 0, 1, 1});
  b.output(b.node("other", "Relu", {b.g.node(b["pad"]).out()}, {1, 4, 10, 10}));
  EXPECT_EQ(verdict(b, pad_into_conv, "conv"), "extra_reader by other");
}

TEST(PadIntoConv, stays_apart_from_automatic_padding) {
  PadBuilder b({0, 0, 1, 1, 0, 0, 1, 1});
  b.g.edit(b["conv"]).attrs["auto_pad"] = std::string("SAME_UPPER");
  EXPECT_EQ(verdict(b, pad_into_conv, "conv"), "wrong_attribute by conv");
}

std::vector<int64_t> pads_of(const std::string& mode, int64_t stride, int64_t kernel, Dim extent) {
  Builder b;
  const ValueId x = b.input("x", {1, 4, extent, extent});
  b.output(b.node("conv", "Conv", {x, b.weights("w", {4, 4, kernel, kernel})}, {1, 4, Dim(), Dim()}, DType::f32,
                  {{"auto_pad", mode}, {"strides", std::vector<int64_t>{stride, stride}}}));
  const Outcome o = explicit_pads(b.g, b["conv"]);
  if (!std::holds_alternative<Match>(o)) return {};
  apply_match(b.g, o);
  return b.g.node(b["conv"]).get_ints("pads");
}

TEST(ExplicitPads, writes_automatic_padding_out) {
  EXPECT_THAT(pads_of("SAME_UPPER", 1, 3, 8), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(pads_of("SAME_UPPER", 2, 3, 8), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(pads_of("SAME_LOWER", 2, 3, 8), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(pads_of("SAME_UPPER", 2, 3, 7), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(pads_of("SAME_UPPER", 2, 1, 8), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(pads_of("SAME_UPPER", 1, 3, Dim("h")), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(pads_of("VALID", 2, 3, Dim("h")), ElementsAre(0, 0, 0, 0));
}

TEST(ExplicitPads, needs_the_extent_when_there_is_a_stride) { EXPECT_THAT(pads_of("SAME_UPPER", 2, 3, Dim("h")), ElementsAre()); }

struct ChannelBuilder : ConvBuilder {
  explicit ChannelBuilder(const std::string& op, const Shape& shape, bool constant_first = false) {
    const ValueId c = weights("c", shape, DType::f32, 0.5);
    output(node("op", op, constant_first ? std::vector{c, conv} : std::vector{conv, c}, image));
  }
};

TEST(ConvBias, takes_constants_for_each_channel_in) {
  for (const std::string op : {"Add", "Sub", "Mul", "Div"}) {
    for (const Shape& s : {Shape{4, 1, 1}, Shape{1, 4, 1, 1}}) {
      ChannelBuilder b(op, s);
      if (op == "Div") b.g.set_input(b["op"], 1, b.constant("d", Tensor::of<float>(s, {1, 2, 4, 0.5f})));
      const Graph before = clone(b.g);
      apply_match(b, conv_bias, "op");
      EXPECT_EQ(b.g.live_nodes(), 1u);
      expect_same_outputs(before, b.g);
    }
  }
}

TEST(ConvBias, takes_the_constant_from_either_side) {
  ChannelBuilder b("Add", {4, 1, 1}, true);
  EXPECT_EQ(verdict(b, conv_bias, "op"), "matched");
  ChannelBuilder sub("Sub", {4, 1, 1}, true);
  EXPECT_EQ(verdict(sub, conv_bias, "op"), "not here");
}

TEST(ConvBias, stays_apart_when_the_bias_goes_with_the_last_axis) {
  Builder b;
  const ValueId x = b.input("x", {1, 4, 8, 4});
  const ValueId conv = b.node("conv", "Conv", {x, b.weights("w", {4, 4, 1, 1})}, {1, 4, 8, 4});
  b.output(b.node("op", "Add", {conv, b.weights("c", {4})}, {1, 4, 8, 4}));
  EXPECT_EQ(verdict(b, conv_bias, "op"), "wrong_rank by op");
}

TEST(ConvBias, stays_apart_when_the_constant_varies_over_the_image) {
  ChannelBuilder b("Add", {4, 8, 8});
  EXPECT_EQ(verdict(b, conv_bias, "op"), "wrong_shape by op");
}

TEST(ConvBias, stays_apart_when_the_convolution_has_a_second_reader) {
  ChannelBuilder b("Add", {4, 1, 1});
  b.output(b.node("other", "Relu", {b.conv}, image));
  EXPECT_EQ(verdict(b, conv_bias, "op"), "extra_reader by other");
}

TEST(ConvBias, stays_apart_when_the_bias_is_computed) {
  ChannelBuilder b("Add", {4, 1, 1});
  b.g.set_input(b["conv"], 2, b.node("bias", "Relu", {b.input("c2", {4})}, {4}));
  EXPECT_EQ(verdict(b, conv_bias, "op"), "not_constant by bias");
}

}  // namespace
}  // namespace smelt::fuse
