#include "fuse/match/pointwise.h"

#include <gmock/gmock.h>

#include "support/builder.h"

namespace smelt::fuse {
namespace {

const SymShape shape{2, 3};

/// The body of the one node `op` over inputs of `types`.
std::string body_of(const std::string& op, const std::vector<DType>& types, DType result,
                    std::map<std::string, Attribute> attrs = {}, std::string_view domain = onnx_domain) {
  Builder b;
  std::vector<ValueId> inputs;
  for (DType t : types) inputs.push_back(b.input("", shape, t));
  const ValueId y = b.node("n", op, inputs, shape, result, std::move(attrs), domain);
  const NodeId n = b["n"];
  if (const auto r = not_pointwise(b.g, n)) return std::string(name(r->reason));
  return pointwise_body(b.g, {{n}}, {{y}}).program.print();
}

TEST(Pointwise, writes_a_binary_operator) {
  EXPECT_EQ(body_of("Add", {DType::f32, DType::f32}, DType::f32), "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; return %2 }");
}

TEST(Pointwise, computes_half_precision_in_f32_and_rounds_once) {
  EXPECT_EQ(body_of("Sigmoid", {DType::f16}, DType::f16),
            "(in0:f16) { %1 = cast(in0):f32; %2 = sigmoid(%1):f32; %3 = cast(%2):f16; return %3 }");
}

TEST(Pointwise, takes_parameters_by_value) {
  EXPECT_EQ(body_of("Elu", {DType::f32}, DType::f32, {{"alpha", 2.0f}}),
            "(in0:f32) { %1 = const(2):f32; %2 = elu(in0, %1):f32; return %2 }");
  EXPECT_EQ(body_of("Gelu", {DType::f32}, DType::f32, {{"approximate", std::string("tanh")}}),
            "(in0:f32) { %1 = gelu_tanh(in0):f32; return %1 }");
}

TEST(Pointwise, casts_to_the_output_type) {
  EXPECT_EQ(body_of("Cast", {DType::f32}, DType::i64), "(in0:f32) { %1 = cast(in0):i64; return %1 }");
  EXPECT_EQ(body_of("Cast", {DType::boolean}, DType::f16), "(in0:bool) { %1 = cast(in0):f32; %2 = cast(%1):f16; return %2 }");
}

TEST(Pointwise, comparisons_give_bool) {
  EXPECT_EQ(body_of("Less", {DType::f16, DType::f16}, DType::boolean),
            "(in0:f16, in1:f16) { %2 = cast(in0):f32; %3 = cast(in1):f32; %4 = less(%2, %3):bool; return %4 }");
}

TEST(Pointwise, folds_operators_of_many_inputs) {
  EXPECT_EQ(body_of("Sum", {DType::f32, DType::f32, DType::f32}, DType::f32),
            "(in0:f32, in1:f32, in2:f32) { %3 = add(in0, in1):f32; %4 = add(%3, in2):f32; return %4 }");
}

TEST(Pointwise, refuses_operators_that_look_beyond_an_element) {
  EXPECT_EQ(body_of("Softmax", {DType::f32}, DType::f32), "unsupported");
  EXPECT_EQ(body_of("Add", {DType::f32, DType::f32}, DType::f32, {}, "com.example"), "unsupported");
}

TEST(Pointwise, refuses_operators_whose_inputs_are_not_all_operands) {
  EXPECT_EQ(body_of("CastLike", {DType::f32, DType::f16}, DType::f16), "unsupported");
  EXPECT_EQ(body_of("Dropout", {DType::f32}, DType::f32), "unsupported");
}

TEST(Pointwise, writes_integer_forms_of_their_own) {
  EXPECT_EQ(body_of("BitShift", {DType::i32, DType::i32}, DType::i32, {{"direction", std::string("LEFT")}}),
            "(in0:i32, in1:i32) { %2 = cast(in1):u32; %3 = cast(in0):u32; %4 = shift_left(%3, %2):u32; %5 = cast(%4):i32; "
            "return %5 }");
  EXPECT_EQ(body_of("Mod", {DType::i32, DType::i32}, DType::i32), "(in0:i32, in1:i32) { %2 = mod(in0, in1):i32; return %2 }");
}

TEST(Pointwise, raises_integers_to_fractional_powers_in_double) {
  EXPECT_EQ(body_of("Pow", {DType::i32, DType::f32}, DType::i32),
            "(in0:i32, in1:f32) { %2 = cast(in0):f64; %3 = cast(in1):f64; %4 = pow(%2, %3):f64; %5 = cast(%4):i32; return %5 }");
}

TEST(Pointwise, refuses_types_without_arithmetic) {
  EXPECT_EQ(body_of("LeakyRelu", {DType::i32}, DType::i32), "wrong_type");
  EXPECT_EQ(body_of("Cast", {DType::f32}, DType::f8e4m3fn), "wrong_type");
  EXPECT_EQ(body_of("Cast", {DType::f32}, DType::string), "wrong_type");
  EXPECT_EQ(body_of("Sin", {DType::i32}, DType::i32), "wrong_type");
  EXPECT_EQ(body_of("Add", {DType::f32, DType::i32}, DType::f32), "wrong_type");
}

TEST(Pointwise, refuses_a_missing_input) {
  EXPECT_EQ(body_of("Add", {DType::f32}, DType::f32), "missing_input");
  EXPECT_EQ(body_of("Relu", {}, DType::f32), "missing_input");
}

TEST(Pointwise, splits_clip_by_the_bounds_it_has) {
  Builder b;
  const ValueId x = b.input("x", shape), top = b.scalar(6);
  const ValueId y = b.node("n", "Clip", {x, ValueId::none, top}, shape);
  EXPECT_EQ(pointwise_body(b.g, {{b["n"]}}, {{y}}).program.print(),
            "(in0:f32) { %1 = const(6):f32; %2 = min(in0, %1):f32; return %2 }");
}

TEST(Pointwise, keeps_a_vector_as_an_operand_and_takes_a_scalar_in) {
  Builder b;
  const ValueId x = b.input("x", shape), w = b.weights("w", {3}), two = b.scalar(2);
  const ValueId a = b.node("a", "Mul", {x, w}, shape), y = b.node("y", "Add", {two, a}, shape);
  const Body body = pointwise_body(b.g, {{b["a"], b["y"]}}, {{y}});
  EXPECT_THAT(body.operands, testing::ElementsAre(x, w));
  EXPECT_EQ(body.program.print(),
            "(in0:f32, in1:f32) { %2 = mul(in0, in1):f32; %3 = const(2):f32; %4 = add(%3, %2):f32; return %4 }");
}

TEST(Pointwise, begins_with_what_the_fused_operator_computes) {
  Builder b;
  const ValueId x = b.input("x", shape, DType::f16), r = b.input("r", shape, DType::f16);
  const ValueId conv = b.node("conv", "Conv", {x}, shape, DType::f16);
  const ValueId sum = b.node("sum", "Add", {conv, r}, shape, DType::f16), y = b.node("y", "Relu", {sum}, shape, DType::f16);
  const Body body = pointwise_body(b.g, {{b["sum"], b["y"]}}, {{y}}, conv);
  EXPECT_THAT(body.operands, testing::ElementsAre(r));
  EXPECT_EQ(body.program.print(),
            "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):f16; return %5 }");
}

TEST(Pointwise, gives_every_result_that_is_asked_for) {
  Builder b;
  const ValueId x = b.input("x", shape);
  const ValueId a = b.node("a", "Neg", {x}, shape), y = b.node("y", "Exp", {a}, shape);
  EXPECT_EQ(pointwise_body(b.g, {{b["a"], b["y"]}}, {{a, y}}).program.print(),
            "(in0:f32) { %1 = neg(in0):f32; %2 = exp(%1):f32; return %1, %2 }");
}

TEST(Pointwise, joins_fused_bodies_without_rounding_between_them) {
  Builder b;
  const ValueId x = b.input("x", shape, DType::f16);
  const ValueId a = b.node("a", "Pointwise", {x}, shape, DType::f16, {}, smelt_domain);
  b.g.edit(b["a"]).program =
      expr::Program::parse("(in0:f16) { %1 = cast(in0):f32; %2 = silu(%1):f32; %3 = cast(%2):f16; return %3 }");
  const ValueId y = b.node("y", "Mul", {a, a}, shape, DType::f16);
  EXPECT_EQ(pointwise_body(b.g, {{b["a"], b["y"]}}, {{y}}).program.print(),
            "(in0:f16) { %1 = cast(in0):f32; %2 = silu(%1):f32; %3 = mul(%2, %2):f32; %4 = cast(%3):f16; return %4 }");
}

TEST(Pointwise, quantizes_with_one_scale_only) {
  Builder b;
  const ValueId x = b.input("x", shape), s = b.scalar(0.5), z = b.scalar(3, DType::u8);
  const ValueId q = b.node("q", "QuantizeLinear", {x, s, z}, shape, DType::u8);
  b.node("y", "DequantizeLinear", {q, s, z}, shape);
  ASSERT_FALSE(not_pointwise(b.g, b["q"]) || not_pointwise(b.g, b["y"]));
  EXPECT_EQ(pointwise_body(b.g, {{b["q"]}}, {{q}}).program.print(),
            "(in0:f32) { %1 = const(0.5):f32; %2 = div(in0, %1):f32; %3 = round(%2):f32; %4 = const(3):f32; "
            "%5 = add(%3, %4):f32; %6 = const(0):f32; %7 = const(255):f32; %8 = clip(%5, %6, %7):f32; %9 = cast(%8):u8; "
            "return %9 }");
  const ValueId each = b.weights("each", {3});
  b.node("c", "QuantizeLinear", {x, each}, shape, DType::u8);
  EXPECT_EQ(not_pointwise(b.g, b["c"])->reason, Reason::wrong_shape);
}

}  // namespace
}  // namespace smelt::fuse
