// What a GPU's plans make of 8-bit products whose operands, scales or zero points are computed.
#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

const SymShape matrix{8, 16};

/// y = a · b, both computed, as "product": in parts, or as one QLinearMatMul.
struct ComputedProduct : Builder {
  explicit ComputedProduct(bool in_parts) {
    const SymShape rows{8, 32}, columns{32, 16};
    const ValueId a = input("a", rows, DType::u8), w = input("b", columns, DType::u8);
    const ValueId s = scalar(0.125), z = scalar(7, DType::u8), ys = scalar(4), yz = scalar(90, DType::u8);
    if (!in_parts) {
      output(node("product", "QLinearMatMul", {a, s, z, w, s, z, ys, yz}, matrix, DType::u8));
      return;
    }
    const ValueId da = node("da", "DequantizeLinear", {a, s, z}, rows), dw = node("dw", "DequantizeLinear", {w, s, z}, columns);
    output(node("q", "QuantizeLinear", {node("product", "MatMul", {da, dw}, matrix), ys, yz}, matrix, DType::u8));
  }
};

TEST(Int8ByConstants, multiplies_two_computed_operands) {
  for (const bool in_parts : {true, false})
    for (const bool by_constants : {true, false}) {
      ComputedProduct b(in_parts);
      const Graph before = clone(b.g);
      run(b.g, {.int8_by_constants = by_constants});
      EXPECT_EQ(b.g.live_nodes(), 1u);
      EXPECT_TRUE(b.g.node(b.g.topological()[0]).is("QLinearMatMul", smelt_domain));
      expect_same_outputs(before, b.g);
    }
}

TEST(Int8ByConstants, leaves_products_by_computed_scales_in_parts) {
  for (const bool in_parts : {true, false}) {
    ComputedProduct b(in_parts);
    const ValueId scale = b.input("scale", {}, DType::f32);
    const NodeId at = b[in_parts ? "dw" : "product"];
    b.g.set_input(at, in_parts ? 1 : 4, scale);
    const Graph before = clone(b.g);
    const Ledger ledger = run(b.g, {.int8_by_constants = true});
    if (in_parts) {
      EXPECT_EQ(rejection(ledger, "quantized_matmul"), "not_constant");
    }
    EXPECT_EQ(matches(ledger, "qlinear_operator"), in_parts ? 0u : 1u);
    for (const NodeId n : b.g.topological()) EXPECT_NE(b.g.node(n).op, "QLinearMatMul");
    expect_same_outputs(before, b.g);
  }
}

/// Q and K in 8 bits; the scores quantized or not, and V by probabilities that are quantized where the scores are.
struct ComputedAttention : Builder {
  explicit ComputedAttention(bool quantized) {
    const SymShape rows{2, 24, 16}, scores{2, 24, 24};
    const ValueId s = scalar(0.05), z = scalar(7, DType::u8);
    const auto real = [&](const char* name, const SymShape& shape, ValueId x) {
      return node(name, "DequantizeLinear", {x, s, z}, shape);
    };
    const auto between = [&](const std::string& name, const SymShape& shape, ValueId x, ValueId by, ValueId zero) {
      const ValueId q = node("q_" + name, "QuantizeLinear", {x, by, zero}, shape, DType::u8);
      return node("d_" + name, "DequantizeLinear", {q, by, zero}, shape);
    };
    const ValueId q = real("dq", rows, input("q8", rows, DType::u8)), v = real("dv", rows, input("v8", rows, DType::u8));
    const ValueId k = real("dk", {2, 16, 24}, input("k8", {2, 16, 24}, DType::u8));
    ValueId x = node("scores", "MatMul", {q, k}, scores);
    if (quantized) x = between("x", scores, x, scalar(0.5), scalar(120, DType::u8));
    x = node("scaled", "Mul", {x, scalar(0.25)}, scores);
    if (quantized) x = between("s", scores, x, scalar(0.125), scalar(120, DType::u8));
    x = node("softmax", "Softmax", {x}, scores, DType::f32, {{"axis", int64_t{-1}}});
    if (quantized) x = between("p", scores, x, scalar(1.0 / 255), scalar(0, DType::u8));
    const ValueId y = node("values", "MatMul", {x, v}, rows);
    output(quantized ? node("q_y", "QuantizeLinear", {y, s, z}, rows, DType::u8) : y);
  }
};

TEST(Int8ByConstants, multiplies_both_products_of_an_attention_in_8_bits) {
  ComputedAttention b(true);
  const Graph before = clone(b.g);
  run(b.g, {.int8_by_constants = true});
  size_t products = 0, softmaxes = 0;
  for (const NodeId n : b.g.topological()) {
    products += b.g.node(n).is("QLinearMatMul", smelt_domain) ? 1 : 0;
    softmaxes += b.g.node(n).is("QLinearSoftmax", microsoft_domain) ? 1 : 0;
  }
  EXPECT_EQ(products, 2u);
  EXPECT_EQ(softmaxes, 1u);
  EXPECT_EQ(b.g.live_nodes(), 3u);
  expect_same_outputs(before, b.g);
}

/// DequantizeLinear → Softmax → QuantizeLinear.
struct SoftmaxOfBytes : Builder {
  explicit SoftmaxOfBytes(int64_t axis = -1, DType type = DType::u8, bool zero = true) {
    const ValueId z = zero ? scalar(3, type) : ValueId::none;
    const ValueId d = node("d", "DequantizeLinear", {input("x", matrix, type), scalar(0.1), z}, matrix);
    const ValueId p = node("softmax", "Softmax", {d}, matrix, DType::f32, {{"axis", axis}});
    output(node("q", "QuantizeLinear", {p, scalar(1.0 / 255), zero ? scalar(0, DType::u8) : ValueId::none}, matrix, DType::u8));
  }
};

TEST(QuantizedSoftmax, is_one_operator_on_a_gpu) {
  for (const DType type : {DType::u8, DType::i8})
    for (const bool on_gpu : {true, false}) {
      SoftmaxOfBytes b(-1, type);
      const Graph before = clone(b.g);
      run(b.g, {.int8_by_constants = on_gpu});
      if (on_gpu) {
        EXPECT_EQ(b.g.live_nodes(), 1u);
        EXPECT_EQ(only(b.g, "QLinearSoftmax", microsoft_domain).inputs.size(), 5u);
      } else {
        for (const NodeId n : b.g.topological()) EXPECT_NE(b.g.node(n).op, "QLinearSoftmax");
      }
      expect_same_outputs(before, b.g);
    }
}

TEST(QuantizedSoftmax, stays_in_parts_over_another_axis_and_without_its_result_s_type) {
  EXPECT_EQ(verdict(SoftmaxOfBytes(0), quantized_softmax, "softmax"), "wrong_axis by softmax");
  EXPECT_EQ(verdict(SoftmaxOfBytes(-1, DType::i8, false), quantized_softmax, "softmax"), "missing_input by q");
}

TEST(QuantizedRows, reads_transposed_keys_as_rows) {
  for (const bool heads : {false, true}) {
    Builder b;
    const SymShape q{2, 3, 8, 16}, stored = heads ? SymShape{2, 12, 3, 16} : SymShape{2, 3, 12, 16}, y{2, 3, 8, 12};
    const ValueId s = b.scalar(0.05), z = b.scalar(7, DType::u8), x = b.input("k", stored, DType::u8);
    const ValueId k = b.node("turned", "Transpose", {x}, {2, 3, 16, 12}, DType::u8,
                             {{"perm", heads ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 1, 3, 2}}});
    b.output(b.node("product", "QLinearMatMul", {b.input("q", q, DType::u8), s, z, k, s, z, b.scalar(0.5), z}, y, DType::u8));
    const Graph before = clone(b.g);
    run(b.g, {.int8_by_constants = true});
    const Node& product = only(b.g, "QLinearMatMul");
    EXPECT_EQ(product.get_int("transB", 0), 1);
    EXPECT_EQ(b.g.live_nodes(), heads ? 2u : 1u);
    if (!heads) {
      EXPECT_EQ(product.in(1), x);
    }
    expect_same_outputs(before, b.g);
    Builder other;
    const ValueId both = other.node("turned", "Transpose", {other.input("k", {12, 16}, DType::u8)}, {16, 12}, DType::u8,
                                    {{"perm", std::vector<int64_t>{1, 0}}});
    const ValueId of = other.scalar(0.05), zero = other.scalar(7, DType::u8);
    const ValueId product_of =
        other.node("product", "QLinearMatMul", {other.input("q", {8, 16}, DType::u8), both, of, zero, of, zero}, {8, 12},
                   DType::f32, {}, smelt_domain);
    other.output(product_of);
    other.output(both);
    EXPECT_EQ(verdict(other, quantized_rows, "product"), "graph_output by turned");
  }
}

TEST(Int8ByConstants, leaves_scores_in_floats_to_the_attention_that_takes_them) {
  ComputedAttention b(false);
  EXPECT_EQ(verdict(b, quantized_matmul_by_constants, "scores"), "wrong_reader by softmax");
  const Graph before = clone(b.g);
  const Ledger ledger = run(b.g, {.int8_by_constants = true});
  EXPECT_EQ(matches(ledger, "attention"), 1u);
  expect_same_outputs(before, b.g);
}

}  // namespace
}  // namespace smelt::fuse
