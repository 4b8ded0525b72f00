// Quantized operators in a row: no 32-bit value between them.
#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"

namespace smelt::fuse {
namespace {

const SymShape image{1, 4, 8, 8};

/// x dequantized → Conv "conv" → Q → DQ "d", whose value the caller goes on with.
struct Chain : Builder {
  ValueId x, d;
  Chain() {
    x = input("x", image, DType::u8);
    const ValueId dx = node("dx", "DequantizeLinear", {x, scalar(0.5), scalar(3, DType::u8)}, image);
    const ValueId dw = node("dw", "DequantizeLinear", {weights("w", {4, 4, 1, 1}, DType::i8, 20), scalar(0.25)}, {4, 4, 1, 1});
    d = both("conv", node("conv", "Conv", {dx, dw}, image), 2);
  }
  ValueId quantized(const std::string& name, ValueId v, double scale) {
    return node(name + "_q", "QuantizeLinear", {v, scalar(scale), scalar(7, DType::u8)}, g.value(v).shape.value(), DType::u8);
  }
  ValueId dequantized(const std::string& name, ValueId q, double scale) {
    return node(name + "_d", "DequantizeLinear", {q, scalar(scale), scalar(7, DType::u8)}, g.value(q).shape.value());
  }
  ValueId both(const std::string& name, ValueId v, double scale) { return dequantized(name, quantized(name, v, scale), scale); }
  /// The one QLinearConv, after the pipeline.
  const Node& fused() {
    run(g);
    EXPECT_EQ(count(g, "QLinearConv", smelt_domain), 1u);
    for (NodeId n : g.topological())
      if (g.node(n).is("QLinearConv", smelt_domain)) return g.node(n);
    return g.node(g.topological()[0]);
  }
};

TEST(QuantizedChain, takes_in_a_quantized_residual) {
  Chain b;
  const ValueId r = b.input("r", image, DType::u8);
  const ValueId sum = b.node("sum", "Add", {b.dequantized("r", r, 0.3), b.d}, image);
  const ValueId y = b.quantized("sum", sum, 3);
  b.output(y);
  const Node& n = b.fused();
  EXPECT_EQ(b.g.live_nodes(), 1u);
  EXPECT_EQ(n.out(), y);
  EXPECT_EQ(n.in(7), r);
}

TEST(QuantizedChain, takes_in_an_activation_between_quantizations) {
  Chain b;
  const ValueId gate = b.both("gate", b.node("sigmoid", "HardSigmoid", {b.d}, image), 0.004);
  const ValueId y = b.quantized("mul", b.node("mul", "Mul", {b.d, gate}, image), 1.5);
  b.output(y);
  const Node& n = b.fused();
  EXPECT_EQ(b.g.live_nodes(), 1u);
  EXPECT_EQ(n.out(), y);
  EXPECT_THAT(n.program->print(), testing::HasSubstr("hard_sigmoid"));
}

TEST(QuantizedChain, stops_at_a_product_with_another_tensor) {
  Chain b;
  const ValueId r = b.input("r", image, DType::u8);
  b.output(b.quantized("mul", b.node("mul", "Mul", {b.d, b.dequantized("r", r, 0.3)}, image), 3));
  EXPECT_THAT(b.fused().program->print(), testing::Not(testing::HasSubstr("mul")));
  EXPECT_EQ(count(b.g, "Pointwise", smelt_domain), 1u);
}

TEST(QuantizedChain, stops_where_the_eight_bits_have_another_reader) {
  Chain b;
  const ValueId r = b.input("r", image, DType::u8);
  b.output(b.quantized("sum", b.node("sum", "Add", {b.dequantized("r", r, 0.3), b.d}, image), 3));
  b.output(b.g.node(b["conv_q"]).out());
  EXPECT_EQ(b.fused().out(), b.g.outputs()[1]);
  EXPECT_EQ(count(b.g, "Pointwise", smelt_domain), 1u);
}

TEST(QuantizedChain, does_not_add_what_is_computed_from_it) {
  Chain b;
  const ValueId q = b.g.node(b["conv_q"]).out();
  const ValueId pool = b.node("pool", "MaxPool", {q}, image, DType::u8, {{"kernel_shape", std::vector<int64_t>{1, 1}}});
  b.output(b.quantized("sum", b.node("sum", "Add", {b.d, b.dequantized("pool", pool, 2)}, image), 3));
  run(b.g);
  verify(b.g);
  EXPECT_EQ(count(b.g, "Pointwise", smelt_domain), 1u);
}

TEST(SplitDequantize, gives_each_reader_its_own) {
  Builder b;
  const ValueId x = b.input("x", image, DType::u8);
  const ValueId d = b.node("d", "DequantizeLinear", {x, b.scalar(0.5), b.scalar(3, DType::u8)}, image);
  b.output(b.node("a", "Softmax", {d}, image));
  b.output(b.node("b", "Mul", {d, d}, image));
  b.output(b.node("c", "Softmax", {d}, image, DType::f32, {{"axis", int64_t{1}}}));
  apply_match(b, split_dequantize, "d");
  EXPECT_EQ(count(b.g, "DequantizeLinear"), 3u);
  EXPECT_EQ(b.g.node(b["b"]).in(0), b.g.node(b["b"]).in(1));
  EXPECT_EQ(b.g.readers(d).size(), 1u);
}

TEST(SplitDequantize, is_not_here_with_one_reader_or_constant_integers) {
  Builder b;
  const ValueId d = b.node("d", "DequantizeLinear", {b.input("x", image, DType::u8), b.scalar(0.5)}, image);
  b.output(b.node("a", "Softmax", {d}, image));
  EXPECT_EQ(verdict(b, split_dequantize, "d"), "not here");
  const ValueId w = b.node("w", "DequantizeLinear", {b.weights("k", {4, 4}, DType::i8, 20), b.scalar(0.5)}, {4, 4});
  b.output(b.node("e", "Softmax", {w}, {4, 4}));
  b.output(b.node("f", "Softmax", {w}, {4, 4}, DType::f32, {{"axis", int64_t{0}}}));
  EXPECT_EQ(verdict(b, split_dequantize, "w"), "not here");
}

/// QuantizeLinear(Concat(DequantizeLinear(x0), DequantizeLinear(x1))) with the scales 0.5 and `second`, quantized with 0.5.
struct Joined : Builder {
  explicit Joined(double second) {
    std::vector<ValueId> parts;
    for (int i = 0; i < 2; ++i) {
      const std::string n = std::to_string(i);
      parts.push_back(node("d" + n, "DequantizeLinear",
                           {input("x" + n, image, DType::u8), scalar(i == 0 ? 0.5 : second), scalar(3, DType::u8)}, image));
    }
    const ValueId c = node("concat", "Concat", parts, {1, 8, 8, 8}, DType::f32, {{"axis", int64_t{1}}});
    output(node("q", "QuantizeLinear", {c, scalar(0.5), scalar(3, DType::u8)}, {1, 8, 8, 8}, DType::u8));
  }
};

TEST(QuantizedConcat, joins_integers_of_differing_scales) {
  Joined b(0.75);
  run(b.g);
  EXPECT_EQ(count(b.g, "Concat"), 1u);
  EXPECT_EQ(count(b.g, "Pointwise", smelt_domain), 1u);  // the second input's, from one scale to the other
  EXPECT_EQ(b.g.live_nodes(), 2u);
  EXPECT_EQ(b.g.value(b.g.outputs()[0]).type, DType::u8);
}

TEST(QuantizedConcat, stays_when_an_input_is_not_dequantized) {
  Joined b(0.75);
  b.g.set_input(b["concat"], 1, b.node("real", "Relu", {b.input("y", image)}, image));
  EXPECT_EQ(verdict(b, quantized_concat, "q"), "wrong_producer by real");
}

TEST(QuantizedConcat, stays_when_the_result_has_another_reader) {
  Joined b(0.75);
  b.output(b.g.node(b["concat"]).out());
  EXPECT_EQ(verdict(b, quantized_concat, "q"), "graph_output by concat");
}

}  // namespace
}  // namespace smelt::fuse
