// Dynamically quantized products: DynamicQuantizeLinear, a product of integers, and its scale.
#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

/// x quantized → "product" (ConvInteger or MatMulInteger) → Cast "cast" → Mul "scaled" by x's scale · w's → Add "sum" of a bias.
struct Dynamic : Builder {
  SymShape shape;
  ValueId x, scaled, factor;
  explicit Dynamic(bool conv, DType to = DType::f32) : shape(conv ? SymShape{1, 4, 8, 8} : SymShape{8, 16}) {
    const SymShape from = conv ? shape : SymShape{8, 32};
    x = input("x", from);
    const ValueId q = g.add_value("q", DType::u8, from), s = g.add_value("s", DType::f32, SymShape{}),
                  z = g.add_value("z", DType::u8, SymShape{});
    g.add_node({.op = "DynamicQuantizeLinear", .name = "quantize", .opset = 11, .inputs = {x}, .outputs = {q, s, z}});
    const ValueId w = weights("w", conv ? Shape{4, 4, 3, 3} : Shape{32, 16}, DType::i8, 20);
    const std::vector<ValueId> inputs{q, w, z, scalar(0, DType::i8)};
    const auto attrs =
        conv ? std::map<std::string, Attribute>{{"pads", std::vector<int64_t>{1, 1, 1, 1}}} : std::map<std::string, Attribute>{};
    const ValueId product = node("product", conv ? "ConvInteger" : "MatMulInteger", inputs, shape, DType::i32, attrs);
    const ValueId cast = node("cast", "Cast", {product}, shape, to, {{"to", int64_t{to == DType::f32 ? 1 : 10}}});
    factor = node("factor", "Mul", {s, scalar(0.02)}, {});
    scaled = node("scaled", "Mul", {cast, to == DType::f32 ? factor : cast}, shape, to);
  }
  ValueId sum() { return node("sum", "Add", {scaled, weights("b", shape.size() == 4 ? Shape{4, 1, 1} : Shape{16})}, shape); }
};

TEST(DynamicProduct, takes_in_its_scale_and_what_follows) {
  for (const bool conv : {true, false}) {
    Dynamic b(conv);
    b.output(b.node("relu", "Relu", {b.sum()}, b.shape));
    const Graph before = clone(b.g);
    const Ledger ledger = run(b.g);
    EXPECT_EQ(matches(ledger, "dynamic_product"), 1u);
    const Node& n = only(b.g, conv ? "QLinearConv" : "QLinearMatMul");
    EXPECT_EQ(n.in(conv ? 4 : 3), b.g.find_value("z"));
    EXPECT_EQ(n.in(conv ? 6 : 5), ValueId::none);  // the weights' zero point is 0
    EXPECT_THAT(n.program->print(), testing::HasSubstr("relu"));
    EXPECT_EQ(b.g.live_nodes(), 3u);  // DynamicQuantizeLinear, the scales' product
    expect_same_outputs(before, b.g);
  }
}

/// Where kernels of matrices want what they multiply constant, convolutions are taken in alone: theirs take a computed zero point.
TEST(DynamicProduct, of_convolutions_alone) {
  for (const bool conv : {true, false}) {
    Dynamic b(conv);
    b.output(b.scaled);
    EXPECT_EQ(verdict(b, dynamic_convolution, "product"), conv ? "matched" : "not_constant by product");
  }
}

TEST(DynamicProduct, stays_apart_when_its_sums_have_another_reader) {
  Dynamic b(true);
  b.output(b.scaled);
  b.output(b.g.node(b["product"]).out());
  EXPECT_EQ(verdict(b, dynamic_product, "product"), "graph_output by product");
}

TEST(DynamicProduct, stays_apart_when_it_is_scaled_in_another_type) {
  Dynamic b(false, DType::f16);
  b.output(b.scaled);
  EXPECT_EQ(verdict(b, dynamic_product, "product"), "wrong_type by cast");
}

TEST(DynamicProduct, stays_apart_when_the_weights_are_computed) {
  Dynamic b(false);
  b.output(b.scaled);
  const Node& n = b.g.node(b["product"]);
  const ValueId a = n.in(0), z = n.in(2);
  b.g.set_inputs(b["product"], {a, b.input("w2", {32, 16}, DType::i8), z});
  EXPECT_EQ(verdict(b, dynamic_product, "product"), "not_constant by product");
}

TEST(DynamicProduct, stays_apart_where_kernels_want_constants) {
  Dynamic b(false);
  b.output(b.scaled);
  const Ledger ledger = run(b.g, {.int8_by_constants = true});
  EXPECT_EQ(rejection(ledger, "dynamic_product"), "not_constant");
}

}  // namespace
}  // namespace smelt::fuse
