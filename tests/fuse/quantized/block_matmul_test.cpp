// Products by weights in blocks.
#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

constexpr int64_t n = 256, k = 272, padded = 288, block = 32;

/// DequantizeLinear "dequantize" of q [n, row] in blocks → Slice "slice" → Transpose "transpose" → MatMul "product" → Add "sum".
struct Blocks : Builder {
  ValueId a, w, y;
  explicit Blocks(int64_t row = padded, DType type = DType::u4, int64_t of_block = block, int64_t kept = k, bool zeros = true) {
    const Shape blocks = {n, (row + of_block - 1) / of_block};
    a = input("a", {3, kept});
    w = node("dequantize", "DequantizeLinear",
             {constant("q", weights_of(type, {n, row})), weights("scale", blocks),
              zeros ? constant("zero", weights_of(type, blocks)) : ValueId::none},
             {n, row}, DType::f32, {{"axis", int64_t{1}}, {"block_size", of_block}});
    if (kept < row) w = node("slice", "Slice", {w, ints({0}), ints({kept}), ints({1})}, {n, kept});
    w = node("transpose", "Transpose", {w}, {kept, n}, DType::f32, {{"perm", std::vector<int64_t>{1, 0}}});
    y = node("product", "MatMul", {a, w}, {3, n});
  }
  static Tensor weights_of(DType type, const Shape& shape) {
    Tensor t = Tensor::empty(DType::i32, shape);
    for (int64_t i = 0; i < t.size(); ++i) t.data<int32_t>()[i] = static_cast<int32_t>(i * 7 % 15 - (type == DType::i4 ? 8 : 0));
    return t.cast(type);
  }
};

TEST(BlockMatMul, takes_dequantised_weights_their_padding_and_what_follows) {
  for (bool is_padded : {true, false}) {
    Blocks b(is_padded ? padded : k);
    const ValueId sum = b.node("sum", "Add", {b.y, b.weights("bias", {n})}, {3, n});
    b.output(b.node("relu", "Relu", {sum}, {3, n}));
    const Graph before = clone(b.g);
    const Ledger ledger = run(b.g);
    EXPECT_EQ(matches(ledger, "block_matmul"), 1u);
    const Node& node = only(b.g, "BlockMatMul");
    EXPECT_EQ(node.get_int("block_size", 0), block);
    EXPECT_EQ(node.get_int("K", 0), is_padded ? k : 0);
    EXPECT_EQ(node.in(1), b.g.find_value("q"));
    EXPECT_THAT(node.program->print(), testing::HasSubstr("relu"));
    EXPECT_EQ(b.g.live_nodes(), 1u);
    expect_same_outputs(before, b.g);
  }
}

TEST(BlockMatMul, keeps_what_the_model_says_of_its_accuracy) {
  for (int64_t level : {0, 4}) {
    Blocks b;
    b.g.edit(b["dequantize"]).attrs["accuracy_level"] = level;
    b.output(b.y);
    run(b.g);
    EXPECT_EQ(only(b.g, "BlockMatMul").get_int("accuracy_level", 0), level);
  }
}

TEST(BlockMatMul, takes_a_gemm_that_transposes_with_its_addend) {
  for (bool zeros : {true, false}) {
    Blocks b(padded, DType::i4, block, k, zeros);
    const ValueId kept = b.g.node(b["transpose"]).in(0);
    const ValueId gemm = b.node("gemm", "Gemm", {b.a, kept, b.weights("c", {n})}, {3, n}, DType::f32,
                                {{"transB", int64_t{1}}, {"alpha", 0.5f}, {"beta", 2.0f}});
    b.output(b.node("scaled", "Mul", {gemm, b.weights("factor", {n})}, {3, n}));
    const Graph before = clone(b.g);
    run(b.g);
    only(b.g, "BlockMatMul");
    expect_same_outputs(before, b.g);
  }
}

TEST(BlockMatMul, lays_weights_by_columns_by_rows) {
  for (DType type : {DType::u4, DType::i4, DType::u8}) {
    Builder b;
    const ValueId a = b.input("a", {3, 256});
    const Shape blocks = {8, n};
    const ValueId w = b.node("dequantize", "DequantizeLinear",
                             {b.constant("q", Blocks::weights_of(type, {256, n})), b.weights("scale", blocks),
                              b.constant("zero", Blocks::weights_of(type, blocks))},
                             {256, n}, DType::f32, {{"axis", int64_t{0}}, {"block_size", block}});
    b.output(b.node("product", "MatMul", {a, w}, {3, n}));
    const Graph before = clone(b.g);
    run(b.g);
    EXPECT_EQ(b.g.constant(b.g.find_node("product"), 1).shape(), (Shape{n, 256}));
    only(b.g, "BlockMatMul");
    expect_same_outputs(before, b.g);
  }
}

TEST(BlockMatMul, leaves_the_weights_to_other_readers) {
  Blocks b;
  b.output(b.y);
  b.output(b.node("row", "Gather", {b.w, b.ints({3})}, {1, n}));
  const Graph before = clone(b.g);
  run(b.g);
  only(b.g, "BlockMatMul");
  expect_same_outputs(before, b.g);
}

TEST(BlockMatMul, stays_apart_where_no_kernel_takes_the_blocks) {
  Blocks b(k, DType::u4, 24);
  b.output(b.y);
  EXPECT_EQ(verdict(b, block_matmul, "product"), "wrong_shape by dequantize");
  Blocks halves(271, DType::u4, 32, 271);
  halves.output(halves.y);
  EXPECT_EQ(verdict(halves, block_matmul, "product"), "wrong_shape by dequantize");
}

TEST(BlockMatMul, stays_apart_when_the_weights_are_few) {
  Blocks b(64, DType::u4, 32, 64);
  b.output(b.y);
  EXPECT_EQ(verdict(b, block_matmul, "product"), "not_profitable by product");
}

TEST(BlockMatMul, stays_apart_when_more_than_padding_is_cut_off) {
  Blocks b(padded + block);
  b.output(b.y);
  EXPECT_EQ(verdict(b, block_matmul, "product"), "wrong_producer by slice");
}

TEST(BlockMatMul, stays_apart_when_the_scale_is_computed) {
  Blocks b;
  b.output(b.y);
  const Node& d = b.g.node(b["dequantize"]);
  const ValueId q = d.in(0), zero = d.in(2);
  b.g.set_inputs(b["dequantize"], {q, b.input("s", {n, padded / block}), zero});
  EXPECT_EQ(verdict(b, block_matmul, "product"), "not_constant by dequantize");
}

TEST(BlockMatMul, stays_apart_when_its_blocks_are_along_the_columns) {
  Blocks b(k);
  b.output(b.node("other", "MatMul", {b.input("a2", {3, n}), b.g.node(b["transpose"]).in(0)}, {3, k}));
  EXPECT_EQ(verdict(b, block_matmul, "other"), "wrong_axis by dequantize");
}

TEST(BlockMatMul, stays_apart_when_the_gemm_transposes_a) {
  Blocks b(k);
  b.output(b.node("gemm", "Gemm", {b.input("at", {k, 3}), b.w}, {3, n}, DType::f32, {{"transA", int64_t{1}}}));
  EXPECT_EQ(verdict(b, block_matmul, "gemm"), "wrong_attribute by gemm");
}

TEST(BlockMatMul, stays_apart_where_no_kernel_takes_weights_in_blocks) {
  Blocks b;
  b.output(b.y);
  const Ledger ledger = run(b.g, {.blocks_in_parts = true});
  EXPECT_EQ(rejection(ledger, "block_matmul"), "wrong_machine");
}

TEST(BlockMatMul, leaves_other_products_alone) {
  Builder b;
  b.output(b.node("product", "MatMul", {b.input("a", {3, 8}), b.weights("w", {8, 4})}, {3, 4}));
  EXPECT_EQ(verdict(b, block_matmul, "product"), "not here");
}

}  // namespace
}  // namespace smelt::fuse
