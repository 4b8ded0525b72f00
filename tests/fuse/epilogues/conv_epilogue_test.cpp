#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/conv_builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

const SymShape half_image{1, 4, 4, 4};

TEST(ConvEpilogue, takes_residual_and_activation_in) {
  ConvBuilder b;
  const ValueId r = b.input("r", image), sum = b.node("sum", "Add", {b.conv, r}, image);
  b.output(b.node("relu", "Relu", {sum}, image));
  apply_match(b, conv_epilogue, "conv");
  const Node& n = b.g.node(b["relu"]);
  EXPECT_TRUE(n.is("Conv", smelt_domain));
  EXPECT_EQ(n.in(3), r);
  EXPECT_EQ(n.get_ints("pads").size(), 4u);
  EXPECT_THAT(n.sources, testing::UnorderedElementsAre(0, 1, 2));
  EXPECT_EQ(n.program->print(), "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = relu(%2):f32; return %3 }");
}

TEST(ConvEpilogue, leaves_f64_apart_where_no_kernel_takes_a_program) {
  for (const DType type : {DType::f32, DType::f64}) {
    Builder b;
    const ValueId conv =
        b.node("conv", "Conv", {b.input("x", {1, 2, 4, 4}, type), b.weights("w", {3, 2, 1, 1}, type)}, {1, 3, 4, 4}, type);
    b.output(b.node("relu", "Relu", {conv}, {1, 3, 4, 4}, type));
    EXPECT_EQ(verdict(b, conv_epilogue_but_f64, "conv"), type == DType::f64 ? "wrong_type by conv" : "matched");
    EXPECT_EQ(verdict(b, conv_epilogue, "conv"), "matched");
  }
}

TEST(ConvEpilogue, rounds_half_precision_once) {
  ConvBuilder b(DType::f16, false);
  b.output(b.node("act", "HardSwish", {b.conv}, image, DType::f16));
  apply_match(b, conv_epilogue, "conv");
  const Node& n = b.g.node(b["act"]);
  EXPECT_EQ(n.program->print(), "(in0:f32) { %1 = hard_swish(in0):f32; %2 = cast(%1):f16; return %2 }");
  EXPECT_EQ(n.inputs.size(), 2u);
}

TEST(ConvEpilogue, keeps_the_operands_place_when_there_is_no_bias) {
  ConvBuilder b(DType::f32, false);
  const ValueId r = b.input("r", image);
  b.output(b.node("sum", "Add", {r, b.conv}, image));
  apply_match(b, conv_epilogue, "conv");
  EXPECT_EQ(b.g.node(b["sum"]).in(2), ValueId::none);
  EXPECT_EQ(b.g.node(b["sum"]).in(3), r);
}

TEST(ConvEpilogue, takes_in_what_follows_a_transposed_one) {
  Builder b;
  const SymShape twice{1, 3, 8, 8};
  const ValueId conv =
      b.node("conv", "ConvTranspose", {b.input("x", {1, 2, 4, 4}), b.weights("w", {2, 3, 2, 2}), b.weights("b", {3})}, twice,
             DType::f32, {{"strides", std::vector<int64_t>{2, 2}}});
  const ValueId r = b.input("r", twice), sum = b.node("sum", "Add", {conv, r}, twice);
  b.output(b.node("relu", "Relu", {sum}, twice));
  apply_match(b, conv_epilogue, "conv");
  const Node& n = b.g.node(b["relu"]);
  EXPECT_TRUE(n.is("ConvTranspose", smelt_domain));
  EXPECT_EQ(n.in(3), r);
  EXPECT_EQ(n.get_ints("strides"), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(n.program->print(), "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = relu(%2):f32; return %3 }");
}

TEST(ConvEpilogue, stays_apart_when_the_result_is_a_graph_output) {
  ConvBuilder b;
  b.output(b.conv);
  b.output(b.node("relu", "Relu", {b.conv}, image));
  EXPECT_EQ(verdict(b, conv_epilogue, "conv"), "graph_output by conv");
}

TEST(ConvEpilogue, stays_apart_when_something_else_reads_the_result) {
  ConvBuilder b;
  b.output(b.node("relu", "Relu", {b.conv}, image));
  b.output(b.node("pool", "MaxPool", {b.conv}, half_image, DType::f32, {{"kernel_shape", std::vector<int64_t>{2, 2}}}));
  EXPECT_THAT(verdict(b, conv_epilogue, "conv"), testing::StartsWith("extra_reader"));
}

TEST(ConvEpilogue, stays_apart_from_what_is_not_pointwise) {
  ConvBuilder b;
  b.output(b.node("pool", "MaxPool", {b.conv}, half_image, DType::f32, {{"kernel_shape", std::vector<int64_t>{2, 2}}}));
  EXPECT_EQ(verdict(b, conv_epilogue, "conv"), "wrong_reader by pool");
}

TEST(ConvEpilogue, stays_apart_from_an_operand_that_enlarges_the_result) {
  ConvBuilder b;
  b.output(b.node("sum", "Add", {b.conv, b.input("r", {3, 4, 8, 8})}, {3, 4, 8, 8}));
  EXPECT_EQ(verdict(b, conv_epilogue, "conv"), "wrong_shape by sum");
}

}  // namespace
}  // namespace smelt::fuse
