#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

/// Products of x [2, 3, 8], and what reads each so that it is no graph output.
struct Products : Builder {
  DType type;
  ValueId x;
  explicit Products(DType t = DType::f32, SymShape s = {2, 3, 8}) : type(t), x(input("x", std::move(s), t)) {}

  ValueId product(const std::string& n, int64_t columns, double scale) {
    return node(n, "MatMul", {x, weights(n + ".w", {8, columns}, type, 0.1 * scale)}, {2, 3, columns}, type);
  }
  ValueId with_bias(const std::string& n, int64_t columns, double scale) {
    return node(n + ".b", "Add", {product(n, columns, scale), weights(n + ".bias", {columns}, type, 0.03 * scale)},
                {2, 3, columns}, type);
  }
  /// A reader that no product takes into its epilogue.
  void read(ValueId v, int64_t columns) {
    output(node("soft" + std::to_string(columns), "Softmax", {v}, {2, 3, columns}, type, {{"axis", int64_t{-1}}}));
  }
  size_t fuse() { return matches(rewrite_and_compare(g, {"matmul_epilogue", "joined_products"}), "joined_products"); }
  std::string why() {
    run_only(g, "matmul_epilogue");
    return rejection(run_only(g, "joined_products"), "joined_products");
  }
};

TEST(JoinedProducts, takes_products_of_one_input_in_every_float_type) {
  for (DType t : {DType::f32, DType::f64, DType::f16}) {
    SCOPED_TRACE(name(t));
    Products b(t);
    b.read(b.with_bias("q", 4, 1), 4);
    b.read(b.with_bias("k", 5, 2), 5);
    b.read(b.with_bias("v", 6, 3), 6);
    EXPECT_EQ(b.fuse(), 1u);
    const Node& n = only(b.g, "JoinedMatMul");
    EXPECT_EQ(n.outputs.size(), 3u);
    EXPECT_EQ(n.inputs.size(), 7u);
    EXPECT_EQ(count(b.g, "MatMul", smelt_domain), 0u);
  }
}

TEST(JoinedProducts, gives_a_product_without_a_bias_one_of_zeros) {
  Products b;
  b.read(b.with_bias("q", 4, 1), 4);
  b.read(b.product("k", 5, 2), 5);
  EXPECT_EQ(b.fuse(), 1u);
  const Node& n = only(b.g, "JoinedMatMul");
  ASSERT_EQ(n.inputs.size(), 5u);
  EXPECT_EQ(b.g.value(n.inputs[4]).constant.to_doubles(), std::vector<double>(5, 0.0));
}

/// Without a program the results would have the input's type.
TEST(JoinedProducts, keeps_the_type_that_products_are_cast_to) {
  Products b;
  for (const char* n : {"q", "k"}) {
    const ValueId cast = b.node(std::string(n) + ".cast", "Cast", {b.product(n, 4, n[0] == 'q' ? 1 : 2)}, {2, 3, 4}, DType::f16,
                                {{"to", int64_t{10}}});
    b.output(b.node(std::string(n) + ".soft", "Softmax", {cast}, {2, 3, 4}, DType::f16, {{"axis", int64_t{-1}}}));
  }
  EXPECT_EQ(b.fuse(), 1u);
  const Node& n = only(b.g, "JoinedMatMul");
  EXPECT_EQ(b.g.value(n.out()).type, DType::f16);
  EXPECT_TRUE(n.program);
}

TEST(JoinedProducts, takes_transposed_weights_and_scales_that_are_the_same) {
  Products b(DType::f32, {6, 8});
  for (int i = 0; i < 3; ++i) {
    const std::string n = "p" + std::to_string(i);
    ValueId y =
        b.node(n, "Gemm",
               {b.x, b.weights(n + ".w", {4 + i, 8}, b.type, 0.1 * (i + 1)), b.weights(n + ".c", {4 + i}, b.type, 0.1 * (i + 9))},
               {6, 4 + i}, b.type, {{"transB", int64_t{1}}, {"alpha", i == 2 ? 0.5f : 2.0f}});
    b.output(b.node(n + ".s", "Softmax", {y}, {6, 4 + i}, b.type));
  }
  EXPECT_EQ(b.fuse(), 1u);  // the third has another scale
  EXPECT_EQ(only(b.g, "JoinedMatMul").outputs.size(), 2u);
  EXPECT_EQ(only(b.g, "MatMul").get_float("alpha", 1), 0.5f);
}

TEST(JoinedProducts, reads_weights_that_several_products_share) {
  Products b;
  ValueId w = b.weights("w", {8, 4}, b.type, 1);
  for (const char* n : {"one", "two"})
    b.output(b.node(std::string(n) + ".s", "Softmax",
                    {b.node(std::string(n) + ".b", "Add",
                            {b.node(n, "MatMul", {b.x, w}, {2, 3, 4}, b.type),
                             b.weights(std::string(n) + ".bias", {4}, b.type, n[0] == 'o' ? 0.1 : 0.2)},
                            {2, 3, 4}, b.type)},
                    {2, 3, 4}, b.type));
  EXPECT_EQ(b.fuse(), 1u);
}

TEST(JoinedProducts, stays_apart_where_a_result_is_a_graph_output) {
  Products b;
  b.read(b.product("q", 4, 1), 4);
  b.output(b.product("k", 5, 2));
  EXPECT_EQ(b.why(), "graph_output");
}

TEST(JoinedProducts, stays_apart_where_epilogues_differ) {
  Products b;
  b.read(b.node("act", "Relu", {b.product("q", 4, 1)}, {2, 3, 4}, b.type), 4);
  b.read(b.product("k", 5, 2), 5);
  EXPECT_EQ(b.why(), "wrong_reader");
}

TEST(JoinedProducts, leaves_a_gate_that_reads_the_other_product) {
  Products b;
  ValueId up = b.product("up", 4, 1);
  b.read(b.node("gate.y", "Mul", {b.product("gate", 4, 2), up}, {2, 3, 4}, b.type), 4);
  EXPECT_EQ(b.fuse(), 0u);
  const Ledger ledger = run_only(b.g, "joined_products");
  EXPECT_EQ(rejection(ledger, "joined_products"), "wrong_producer");
}

TEST(JoinedProducts, stays_apart_where_an_operand_is_a_residual) {
  Products b;
  ValueId r = b.input("r", {2, 3, 4}, b.type);
  b.read(b.node("q.r", "Add", {b.product("q", 4, 1), r}, {2, 3, 4}, b.type), 4);
  b.read(b.product("k", 5, 2), 5);
  EXPECT_EQ(b.why(), "wrong_shape");
}

TEST(JoinedProducts, stays_apart_where_weights_are_computed_or_no_matrix) {
  Products b;
  b.read(b.product("q", 4, 1), 4);
  b.read(b.node("k", "MatMul", {b.x, b.weights("k.w", {2, 8, 5}, b.type, 0.2)}, {2, 3, 5}, b.type), 5);
  EXPECT_EQ(b.why(), "wrong_rank");
  Products c;
  c.read(c.product("q", 4, 1), 4);
  c.read(c.product("k", 5, 2), 5);
  c.read(c.node("m", "MatMul", {c.x, c.input("w", {8, 6}, c.type)}, {2, 3, 6}, c.type), 6);
  EXPECT_EQ(c.fuse(), 1u);
  EXPECT_EQ(only(c.g, "JoinedMatMul").outputs.size(), 2u);
}

/// One product's result on the way to another's input: these do not read the same value.
TEST(JoinedProducts, keeps_products_in_a_row_in_their_order) {
  Products b(DType::f32, {2, 3, 8});
  ValueId first = b.product("first", 8, 1);
  ValueId between = b.node("soft", "Softmax", {first}, {2, 3, 8}, b.type);
  ValueId sum = b.node("sum", "Softmax",
                       {b.node("second", "MatMul", {between, b.weights("second.w", {8, 4}, b.type, 0.2)}, {2, 3, 4}, b.type)},
                       {2, 3, 4}, b.type);
  b.output(sum);
  b.read(b.product("third", 5, 3), 5);  // of x, behind the second
  EXPECT_EQ(b.fuse(), 1u);
  EXPECT_EQ(only(b.g, "JoinedMatMul").outputs.size(), 2u);
}

/// What other rewrites look for is left to them: a bias that is found late, SwiGLU's two products.
TEST(JoinedProducts, waits_until_other_rewrites_are_done) {
  Products b;
  ValueId gate = b.product("gate", 4, 1), up = b.product("up", 4, 2);
  ValueId silu = b.node("silu", "Mul", {gate, b.node("sig", "Sigmoid", {gate}, {2, 3, 4}, b.type)}, {2, 3, 4}, b.type);
  b.read(b.node("y", "Mul", {silu, up}, {2, 3, 4}, b.type), 4);
  const Ledger ledger = run(b.g);
  EXPECT_EQ(matches(ledger, "recognise_swiglu"), 1u);
  EXPECT_EQ(matches(ledger, "joined_products"), 0u);
}

}  // namespace
}  // namespace smelt::fuse
