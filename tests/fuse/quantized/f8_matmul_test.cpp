#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

constexpr DType f8 = DType::f8e4m3fn;

/// QuantizeLinear(x) → DequantizeLinear "da", DequantizeLinear(w) "dw" → MatMul or Gemm "product" → Relu.
struct EightBitFloats : Builder {
  ValueId w;
  EightBitFloats(bool gemm, bool by_column, DType type = DType::f32, int64_t k = 32) {
    const ValueId x = input("x", {8, k}, type), xs = scalar(0.02, type), zero = scalar(0, f8);
    const ValueId q = node("q", "QuantizeLinear", {x, xs, zero}, {8, k}, f8);
    const ValueId da = node("da", "DequantizeLinear", {q, xs, zero}, {8, k}, type);
    std::vector<float> scales(by_column ? 16 : 1);
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.5f + 0.125f * static_cast<float>(i);
    const Tensor ws = by_column ? Tensor::of<float>({16}, scales) : Tensor::scalar(scales[0]);
    const Shape stored = gemm ? Shape{16, k} : Shape{k, 16};
    w = weights("w", stored, f8, 1);
    const ValueId dw = node("dw", "DequantizeLinear", {w, constant("ws", ws.cast(type))}, SymShape(stored.begin(), stored.end()),
                            type, {{"axis", int64_t{gemm ? 0 : 1}}});
    std::vector<ValueId> inputs{da, dw};
    std::map<std::string, Attribute> attributes;
    if (gemm) inputs.push_back(weights("c", {16}, type)), attributes = {{"transB", int64_t{1}}, {"alpha", 0.5f}, {"beta", 2.0f}};
    const ValueId y = node("product", gemm ? "Gemm" : "MatMul", inputs, {8, 16}, type, attributes);
    output(node("relu", "Relu", {y}, {8, 16}, type));
  }
};

TEST(EightBitFloats, are_multiplied_as_they_are) {
  for (const bool gemm : {false, true})
    for (const bool by_column : {false, true})
      for (const DType type : {DType::f32, DType::f16}) {
        EightBitFloats b(gemm, by_column, type);
        const Graph before = clone(b.g);
        run(b.g);
        const Node& n = only(b.g, "MatMul");
        EXPECT_EQ(b.g.value(n.in(0)).type, f8);
        EXPECT_EQ(n.in(1), b.w);
        EXPECT_EQ(b.g.value(n.out()).type, type);
        EXPECT_THAT(n.program->print(), testing::HasSubstr("relu"));
        expect_same_outputs(before, b.g);
      }
}

TEST(EightBitFloats, are_dequantized_where_no_kernel_multiplies_them) {
  EightBitFloats b(false, true);
  const Graph before = clone(b.g);
  run(b.g, {.skip = {"f8_matmul"}});
  EXPECT_EQ(b.g.value(only(b.g, "MatMul").in(1)).type, DType::f32);
  expect_same_outputs(before, b.g);
}

TEST(EightBitFloats, stay_apart_where_lines_are_no_whole_vectors_or_weights_are_computed) {
  EXPECT_EQ(verdict(EightBitFloats(false, false, DType::f32, 24), f8_matmul, "product"), "wrong_shape by product");
  EightBitFloats zero(false, false);
  const Node& dw = zero.g.node(zero["dw"]);
  zero.g.set_inputs(zero["dw"], {dw.in(0), dw.in(1), zero.scalar(1, f8)});
  EXPECT_EQ(verdict(zero, f8_matmul, "product"), "wrong_value by dw");
  EightBitFloats view(false, false);
  view.g.set_input(view["da"], 0, view.input("given", {8, 32}, f8));
  EXPECT_EQ(verdict(view, f8_matmul, "product"), "wrong_producer by product");
  EightBitFloats computed(false, false);
  const ValueId w = computed.input("computed", {32, 16}, f8);
  computed.g.set_input(computed["dw"], 0, w);
  EXPECT_EQ(verdict(computed, f8_matmul, "product"), "not_constant by product");
  EightBitFloats scale(false, false);
  scale.g.set_input(scale["dw"], 1, scale.input("scale", {}));
  EXPECT_EQ(verdict(scale, f8_matmul, "product"), "not_constant by dw");
}

/// The same of a convolution "conv" with a bias, by channel.
struct EightBitImage : Builder {
  explicit EightBitImage(int64_t channels = 16, bool bias = true) {
    const SymShape image{1, channels, 5, 6}, result{1, 8, 5, 6};
    const ValueId x = input("x", image, DType::f16), xs = scalar(0.02, DType::f16);
    const ValueId q = node("q", "QuantizeLinear", {x, xs, scalar(0, f8)}, image, f8);
    const ValueId da = node("da", "DequantizeLinear", {q, xs}, image, DType::f16);
    std::vector<float> scales(8);
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.5f + 0.125f * static_cast<float>(i);
    const ValueId dw =
        node("dw", "DequantizeLinear",
             {weights("w", {8, channels, 3, 3}, f8, 1), constant("ws", Tensor::of<float>({8}, scales).cast(DType::f16))},
             {8, channels, 3, 3}, DType::f16, {{"axis", int64_t{0}}});
    std::vector<ValueId> inputs{da, dw};
    if (bias) inputs.push_back(weights("b", {8}, DType::f16));
    const ValueId y = node("conv", "Conv", inputs, result, DType::f16, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    output(node("relu", "Relu", {y}, result, DType::f16));
  }
};

TEST(EightBitFloats, are_convolved_as_they_are) {
  for (const bool bias : {false, true}) {
    EightBitImage b(16, bias);
    const Graph before = clone(b.g);
    run(b.g);
    const Node& n = only(b.g, "Conv");
    EXPECT_EQ(b.g.value(n.in(0)).type, f8);
    EXPECT_EQ(b.g.value(n.in(1)).type, f8);
    EXPECT_THAT(n.program->print(), testing::HasSubstr("relu"));
    expect_same_outputs(before, b.g);
  }
  EXPECT_EQ(verdict(EightBitImage(12), f8_conv, "conv"), "wrong_shape by conv");
}

}  // namespace
}  // namespace smelt::fuse
