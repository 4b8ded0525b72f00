#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "ops/core/expand.h"
#include "support/builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

const SymShape image{1, 4, 8, 8}, matrix{8, 16};

/// DequantizeLinear(x) and DequantizeLinear(w) → Conv "conv" → Relu "relu" → QuantizeLinear "q"
struct QConv : Builder {
  ValueId x, y;
  explicit QConv(bool per_channel = true, double bias_scale = 0.5 * 0.25) {
    x = input("x", image, DType::u8);
    const ValueId xs = scalar(0.5), zero = scalar(3, DType::u8);
    const ValueId ws = per_channel ? constant("ws", Tensor::of<float>({4}, {0.25f, 0.25f, 0.25f, 0.25f})) : scalar(0.25);
    const ValueId dx = node("dx", "DequantizeLinear", {x, xs, zero}, image);
    const ValueId dw = node("dw", "DequantizeLinear", {weights("w", {4, 4, 1, 1}, DType::i8, 20), ws}, {4, 4, 1, 1}, DType::f32,
                            {{"axis", int64_t{0}}});
    const ValueId db = node("db", "DequantizeLinear", {weights("b", {4}, DType::i32, 100), scalar(bias_scale)}, {4});
    const ValueId c = node("conv", "Conv", {dx, dw, db}, image), r = node("relu", "Relu", {c}, image);
    y = node("q", "QuantizeLinear", {r, scalar(2), scalar(7, DType::u8)}, image, DType::u8);
    output(y);
  }
};

TEST(QuantizedConv, multiplies_integers) {
  for (bool per_channel : {false, true}) {
    QConv b(per_channel);
    apply_match(b, quantized_conv, "conv");
    const Node& n = b.g.node(b["conv"]);
    EXPECT_TRUE(n.is("QLinearConv", smelt_domain));
    EXPECT_EQ(n.in(0), b.x);
    EXPECT_EQ(b.g.value(n.in(2)).type, DType::i32);
    EXPECT_EQ(n.inputs.size(), 6u);  // the weights have no zero point
    EXPECT_FALSE(n.program);
  }
}

TEST(QuantizedConv, leaves_out_zero_points_of_zero) {
  QConv b;
  const Node& dw = b.g.node(b["dw"]);
  const ValueId w = dw.in(0), ws = dw.in(1);
  b.g.set_inputs(b["dw"], {w, ws, b.constant("zeros", Tensor::of<int8_t>({4}, {0, 0, 0, 0}))});
  apply_match(b, quantized_conv, "conv");
  EXPECT_EQ(b.g.node(b["conv"]).in(6), ValueId::none);
  EXPECT_NE(b.g.node(b["conv"]).in(4), ValueId::none);  // the image's is 3
}

TEST(QuantizedConv, keeps_a_zero_point_for_each_channel) {
  QConv b;
  const Node& dw = b.g.node(b["dw"]);
  const ValueId w = dw.in(0), ws = dw.in(1), zeros = b.constant("zeros", Tensor::of<int8_t>({4}, {0, 0, 1, 0}));
  b.g.set_inputs(b["dw"], {w, ws, zeros});
  apply_match(b, quantized_conv, "conv");
  EXPECT_EQ(b.g.node(b["conv"]).in(6), zeros);
}

TEST(QuantizedConv, adds_a_bias_of_another_scale_as_numbers) {
  QConv b(true, 0.3);
  apply_match(b, quantized_conv, "conv");
  const Node& n = b.g.node(b["conv"]);
  EXPECT_EQ(n.in(2), ValueId::none);
  ASSERT_EQ(n.inputs.size(), 8u);
  EXPECT_EQ(b.g.value(n.in(7)).constant.shape(), (Shape{4, 1, 1}));
  EXPECT_EQ(n.program->print(), "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; return %2 }");
}

TEST(QuantizedConv, ends_in_the_quantization_with_everything_between) {
  QConv b;
  run(b.g);
  ASSERT_EQ(b.g.live_nodes(), 1u);
  const Node& n = b.g.node(b.g.topological()[0]);
  EXPECT_TRUE(n.is("QLinearConv", smelt_domain));
  EXPECT_EQ(n.out(), b.y);
  EXPECT_THAT(n.program->print(), testing::HasSubstr("relu"));
  EXPECT_THAT(n.program->print(), testing::HasSubstr("round"));
}

TEST(QuantizedConv, stays_apart_when_the_input_is_not_dequantized) {
  QConv b;
  b.g.set_input(b["conv"], 0, b.node("between", "Identity", {b.g.node(b["dx"]).out()}, image));
  EXPECT_EQ(verdict(b, quantized_conv, "conv"), "wrong_producer by between");
}

TEST(QuantizedConv, stays_apart_from_sixteen_bits) {
  QConv b;
  b.g.set_input(b["dx"], 0, b.input("wide", image, DType::i16));
  EXPECT_EQ(verdict(b, quantized_conv, "conv"), "wrong_type by dx");
}

TEST(QuantizedConv, stays_apart_when_the_input_has_a_scale_for_each_channel) {
  QConv b;
  b.g.set_inputs(b["dx"], {b.x, b.weights("each", {4})});
  EXPECT_EQ(verdict(b, quantized_conv, "conv"), "wrong_shape by dx");
}

TEST(QuantizedConv, stays_apart_when_the_weights_scales_go_with_the_inputs_channels) {
  QConv b;
  b.g.edit(b["dw"]).attrs["axis"] = int64_t{1};
  EXPECT_EQ(verdict(b, quantized_conv, "conv"), "wrong_axis by dw");
}

TEST(QuantizedConv, stays_apart_when_the_weights_are_computed) {
  QConv b;
  b.g.set_input(b["dw"], 0, b.input("w2", {4, 4, 1, 1}, DType::i8));
  EXPECT_EQ(verdict(b, quantized_conv, "conv"), "not_constant by dw");
}

TEST(QuantizedConv, stays_apart_when_the_bias_is_computed) {
  QConv b;
  b.g.set_input(b["conv"], 2, b.node("bias", "Relu", {b.input("b2", {4})}, {4}));
  EXPECT_EQ(verdict(b, quantized_conv, "conv"), "not_constant by bias");
}

TEST(QLinearEpilogue, reads_a_residual_as_the_integers_it_comes_from) {
  QConv b;
  const ValueId r = b.input("r", image, DType::u8);
  const ValueId dr = b.node("dr", "DequantizeLinear", {r, b.scalar(0.5), b.scalar(1, DType::u8)}, image);
  b.g.set_input(b["relu"], 0, b.node("sum", "Add", {b.g.node(b["conv"]).out(), dr}, image));
  b.output(b.node("other", "Sigmoid", {dr}, image));  // so that the DequantizeLinear has to stay
  apply_match(b, quantized_conv, "conv");
  apply_match(b, qlinear_epilogue, "conv");
  const Node& n = b.g.node(b["q"]);
  EXPECT_TRUE(n.is("QLinearConv", smelt_domain));
  EXPECT_EQ(n.in(7), r);
  EXPECT_NE(b["dr"], NodeId::none);
}

TEST(QLinearEpilogue, stops_at_a_second_reader) {
  QConv b;
  b.output(b.node("other", "Softmax", {b.g.node(b["relu"]).out()}, image));
  apply_match(b, quantized_conv, "conv");
  apply_match(b, qlinear_epilogue, "conv");
  EXPECT_EQ(b.g.value(b.g.node(b["relu"]).out()).type, DType::f32);
  EXPECT_NE(b["q"], NodeId::none);
}

TEST(QLinearEpilogue, stays_apart_from_a_quantization_with_a_scale_for_each_channel) {
  QConv b;
  b.g.set_input(b["q"], 0, b.g.node(b["conv"]).out());
  b.g.set_inputs(b["q"], {b.g.node(b["conv"]).out(), b.weights("each", {4})});
  apply_match(b, quantized_conv, "conv");
  b.g.remove_node(b["relu"]);
  EXPECT_EQ(verdict(b, qlinear_epilogue, "conv"), "wrong_shape by q");
}

/// DequantizeLinear(a) · DequantizeLinear(b) by `op`
struct QProduct : Builder {
  explicit QProduct(const std::string& op, std::map<std::string, Attribute> attrs = {}) {
    const ValueId a = input("a", {8, 32}, DType::u8);
    const bool transposed = attrs.contains("transB");
    const Shape shape = transposed ? Shape{16, 32} : Shape{32, 16};
    const ValueId each = constant("ws", Tensor::of<float>({16}, std::vector<float>(16, 0.25f)));
    const ValueId da = node("da", "DequantizeLinear", {a, scalar(0.5), scalar(3, DType::u8)}, {8, 32});
    const ValueId db = node("db", "DequantizeLinear", {weights("w", shape, DType::i8, 20), each}, to_sym(shape), DType::f32,
                            {{"axis", int64_t{transposed ? 0 : 1}}});
    std::vector<ValueId> inputs{da, db};
    if (op == "Gemm") inputs.push_back(weights("c", {16}));
    output(node("product", op, inputs, matrix, DType::f32, std::move(attrs)));
  }
};

TEST(QuantizedMatmul, multiplies_integers) {
  QProduct b("MatMul");
  apply_match(b, quantized_matmul, "product");
  EXPECT_TRUE(b.g.node(b["product"]).is("QLinearMatMul", smelt_domain));
  EXPECT_FALSE(b.g.node(b["product"]).program);
}

TEST(QuantizedMatmul, adds_gemms_addend) {
  QProduct b("Gemm", {{"transB", int64_t{1}}, {"beta", 2.0f}});
  apply_match(b, quantized_matmul, "product");
  const Node& n = b.g.node(b["product"]);
  EXPECT_EQ(n.get_int("transB", 0), 1);
  EXPECT_EQ(n.inputs.size(), 7u);
  EXPECT_EQ(n.program->print(),
            "(in0:f32, in1:f32) { %2 = const(2):f32; %3 = mul(in1, %2):f32; %4 = add(in0, %3):f32; return %4 }");
}

TEST(QuantizedMatmul, stays_apart_when_scales_go_with_rows) {
  QProduct b("MatMul");
  b.g.edit(b["db"]).attrs["axis"] = int64_t{0};
  EXPECT_EQ(verdict(b, quantized_matmul, "product"), "wrong_axis by db");
}

TEST(QuantizedMatmul, stays_apart_when_one_side_is_not_dequantized) {
  QProduct b("MatMul");
  b.g.set_input(b["product"], 0, b.input("real", {8, 32}));
  EXPECT_EQ(verdict(b, quantized_matmul, "product"), "wrong_producer");
}

TEST(QLinearOperator, becomes_the_fused_one_with_its_quantization) {
  Builder b;
  const ValueId x = b.input("x", image, DType::u8), s = b.scalar(0.5), z = b.scalar(1, DType::u8);
  const ValueId w = b.weights("w", {4, 4, 1, 1}, DType::i8, 20), ws = b.scalar(0.25), wz = b.scalar(0, DType::i8);
  b.output(b.node("conv", "QLinearConv", {x, s, z, w, ws, wz, s, z}, image, DType::u8));
  run(b.g);
  ASSERT_EQ(b.g.live_nodes(), 1u);
  const Node& n = b.g.node(b.g.topological()[0]);
  EXPECT_TRUE(n.is("QLinearConv", smelt_domain));
  EXPECT_EQ(n.in(1), w);
  EXPECT_EQ(b.g.value(n.out()).type, DType::u8);
  EXPECT_EQ(b.g.value(b.g.outputs()[0]).name, "conv_out");
}

TEST(QLinearOperator, needs_to_know_how_many_axes_the_weights_have) {
  Builder b;
  const ValueId x = b.input("x", image, DType::u8), s = b.scalar(0.5), z = b.scalar(1, DType::u8);
  const ValueId w = b.input("w", image, DType::i8), ws = b.scalar(0.25), wz = b.scalar(0, DType::i8);
  b.g.set_shape(w, {});
  b.output(b.node("conv", "QLinearConv", {x, s, z, w, ws, wz, s, z}, image, DType::u8));
  EXPECT_EQ(verdict(b, qlinear_operator, "conv"), "unknown_shape by conv");
  b.g.set_shape(x, {});
  b.g.set_shape(w, SymShape{4, 4, 1, 1});
  const NodeId made = apply_match(b, qlinear_operator, "conv");
  EXPECT_NO_THROW(ops::expand(b.g, made));  // the body that a plan has of it
}

TEST(QLinearOperator, stays_when_an_activation_has_many_scales) {
  Builder b;
  const ValueId a = b.input("a", {8, 32}, DType::u8), each = b.weights("each", {8});
  const ValueId zeros = b.weights("zeros", {8}, DType::u8, 10);
  const ValueId w = b.weights("w", {32, 16}, DType::i8, 20), s = b.scalar(0.25), z = b.scalar(0, DType::i8);
  const ValueId yz = b.scalar(0, DType::u8);
  b.output(b.node("product", "QLinearMatMul", {a, each, zeros, w, s, z, s, yz}, matrix, DType::u8));
  EXPECT_EQ(verdict(b, qlinear_operator, "product"), "wrong_shape by product");
}

/// "form" of ONNX Runtime over u8 "a" and, where it takes two, "b".
struct QLinearForm : Builder {
  ValueId a, s, z, ys, yz;
  QLinearForm(const std::string& op, bool two, std::map<std::string, Attribute> attrs = {}, const SymShape& y = image) {
    a = input("a", image, DType::u8);
    s = scalar(0.5), z = scalar(3, DType::u8), ys = scalar(0.75), yz = scalar(9, DType::u8);
    std::vector<ValueId> inputs{a, s, z};
    if (two) inputs.insert(inputs.end(), {input("b", image, DType::u8), scalar(0.125), scalar(100, DType::u8)});
    inputs.insert(inputs.end(), {ys, yz});
    if (op == "QLinearConcat") std::rotate(inputs.begin(), inputs.end() - 2, inputs.end());
    output(node("form", op, inputs, y, DType::u8, std::move(attrs), microsoft_domain));
  }
};

TEST(QLinearParts, compute_what_the_form_is_defined_as) {
  const std::vector<int64_t> two{2, 2};
  QLinearForm forms[] = {{"QLinearAdd", true},
                         {"QLinearMul", true},
                         {"QLinearConcat", true, {{"axis", int64_t{1}}}, {1, 8, 8, 8}},
                         {"QLinearSigmoid", false},
                         {"QLinearLeakyRelu", false, {{"alpha", 0.25f}}},
                         {"QLinearSoftmax", false, {{"axis", int64_t{-1}}, {"opset", int64_t{13}}}},
                         {"QLinearSoftmax", false, {{"axis", int64_t{3}}, {"opset", int64_t{11}}}},
                         {"QLinearAveragePool", false, {{"kernel_shape", two}, {"strides", two}}, {1, 4, 4, 4}},
                         {"QLinearGlobalAveragePool", false, {}, {1, 4, 1, 1}}};
  for (QLinearForm& b : forms) {
    SCOPED_TRACE(b.g.node(b["form"]).op);
    const Graph before = clone(b.g);
    const Ledger ledger = rewrite_and_compare(b.g, {"qlinear_parts"});
    EXPECT_EQ(matches(ledger, "qlinear_parts"), 1u);
    EXPECT_EQ(b.g.node(b["form_quantize"]).in(1), b.ys);
    for (const char* own : {"channels_last", "opset"}) EXPECT_FALSE(b.g.node(b["form"]).has(own));
    run(b.g);
    expect_same_outputs(before, b.g);
  }
}

TEST(QLinearParts, become_the_epilogue_of_a_convolution) {
  Builder b;
  const ValueId x = b.input("x", image, DType::u8), s = b.scalar(0.5), z = b.scalar(1, DType::u8);
  const ValueId w = b.weights("w", {4, 4, 1, 1}, DType::i8, 20), ws = b.scalar(0.25), wz = b.scalar(0, DType::i8);
  const ValueId c = b.node("conv", "QLinearConv", {x, s, z, w, ws, wz, s, z}, image, DType::u8);
  b.output(b.node("sum", "QLinearAdd", {c, s, z, x, s, z, s, z}, image, DType::u8, {}, microsoft_domain));
  run(b.g);
  ASSERT_EQ(b.g.live_nodes(), 1u);
  EXPECT_TRUE(b.g.node(b.g.topological()[0]).is("QLinearConv", smelt_domain));
}

TEST(QLinearParts, stay_together_where_the_form_says_more_than_its_parts) {
  QLinearForm mean("QLinearReduceMean", false, {{"axes", std::vector<int64_t>{1}}}, {1, 1, 8, 8});
  EXPECT_EQ(verdict(mean, qlinear_parts, "form"), "wrong_attribute by form");
  QLinearForm old("QLinearSoftmax", false, {{"axis", int64_t{2}}, {"opset", int64_t{11}}});
  EXPECT_EQ(verdict(old, qlinear_parts, "form"), "wrong_attribute by form");
  QLinearForm ancient("QLinearSigmoid", false);
  ancient.g.model.opsets[""] = 9;
  EXPECT_EQ(verdict(ancient, qlinear_parts, "form"), "wrong_attribute by form");
  QLinearForm last("QLinearAveragePool", false, {{"kernel_shape", std::vector<int64_t>{8, 8}}, {"channels_last", int64_t{1}}});
  EXPECT_EQ(verdict(last, qlinear_parts, "form"), "wrong_attribute by form");
  QLinearForm many("QLinearSigmoid", false);
  many.g.set_input(many["form"], 1, many.weights("each", {4}));
  EXPECT_EQ(verdict(many, qlinear_parts, "form"), "wrong_shape by form");
  QLinearForm open("QLinearSigmoid", false);
  open.g.set_inputs(open["form"], {open.a, open.s, open.z, open.ys});
  EXPECT_EQ(verdict(open, qlinear_parts, "form"), "missing_input by form");
}

TEST(Int8ByConstants, multiplies_integers_by_constants) {
  QConv conv;
  run(conv.g, {.int8_by_constants = true});
  EXPECT_EQ(only(conv.g, "QLinearConv").name, "q");
  Builder b;
  const ValueId a = b.input("a", {8, 32}, DType::u8), s = b.scalar(0.25), z = b.scalar(3, DType::u8);
  const ValueId w = b.weights("w", {32, 16}, DType::u8, 20);
  b.output(b.node("product", "QLinearMatMul", {a, s, z, w, s, z, s, z}, matrix, DType::u8));
  run(b.g, {.int8_by_constants = true});
  EXPECT_EQ(only(b.g, "QLinearMatMul").inputs[1], w);
}

}  // namespace
}  // namespace smelt::fuse
