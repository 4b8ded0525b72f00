#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

struct Linear : Builder {
  DType type;
  ValueId x;
  explicit Linear(DType t = DType::f32, SymShape s = {2, 3, 8}) : type(t), x(input("x", std::move(s), t)) {}
  ValueId w(Shape s = {8, 4}) { return weights("w", s, type, 1); }
  ValueId at(const std::string& n, const std::string& op, std::vector<ValueId> in, SymShape s = {2, 3, 4}) {
    return node(n, op, std::move(in), std::move(s), type);
  }
  ValueId product() { return at("mm", "MatMul", {x, w()}); }
  size_t fuse(const Bindings& symbols = {}) {
    return matches(rewrite_and_compare(g, {"matmul_epilogue"}, symbols), "matmul_epilogue");
  }
  std::string why() { return rejection(run_only(g, "matmul_epilogue"), "matmul_epilogue"); }
};

TEST(MatMulEpilogue, takes_bias_activation_and_residual_in_every_float_type) {
  for (DType t : {DType::f32, DType::f64, DType::f16}) {
    SCOPED_TRACE(name(t));
    Linear b(t);
    ValueId r = b.input("r", {2, 3, 4}, t);
    ValueId act = b.at("act", "Gelu", {b.at("bias", "Add", {b.product(), b.weights("bias", {4}, t, 1)})});
    b.output(b.at("y", "Add", {r, act}));
    EXPECT_EQ(b.fuse(), 1u);
    EXPECT_EQ(b.g.live_nodes(), 1u);
    EXPECT_EQ(only(b.g, "MatMul").inputs.size(), 4u);
  }
}

TEST(MatMulEpilogue, takes_biases_of_every_shape_that_broadcasts) {
  for (SymShape s : {SymShape{4}, SymShape{1, 4}, SymShape{3, 4}, SymShape{2, 1, 1}}) {
    SCOPED_TRACE(to_string(s));
    Linear b;
    b.output(b.at("y", "Add", {b.product(), b.input("bias", s)}));
    EXPECT_EQ(b.fuse(), 1u);
    EXPECT_EQ(b.g.live_nodes(), 1u);
  }
}

TEST(MatMulEpilogue, takes_gemm_with_its_attributes) {
  Linear b(DType::f32, {8, 3});
  ValueId c = b.weights("c", {4}, DType::f32, 1);
  b.output(b.node("y", "Gemm", {b.x, b.w({4, 8}), c}, {3, 4}, DType::f32,
                  {{"transA", int64_t{1}}, {"transB", int64_t{1}}, {"alpha", 0.5f}, {"beta", 2.0f}}));
  EXPECT_EQ(b.fuse(), 1u);
  EXPECT_EQ(only(b.g, "MatMul").get_int("transA", 0), 1);
  EXPECT_EQ(only(b.g, "MatMul").get_float("alpha", 0), 0.5f);
}

TEST(MatMulEpilogue, takes_transposes_and_scalings_of_its_inputs) {
  Linear b(DType::f32, {2, 8, 3});
  ValueId t = b.node("t", "Transpose", {b.x}, {2, 3, 8}, DType::f32, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  ValueId scaled = b.node("s", "Div", {t, b.scalar(4)}, {2, 3, 8});
  ValueId product = b.at("mm", "MatMul", {scaled, b.w()});
  b.output(b.at("y", "Mul", {b.scalar(3), product}));
  EXPECT_EQ(b.fuse(), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
  EXPECT_EQ(only(b.g, "MatMul").get_float("alpha", 0), 0.75f);
  EXPECT_FALSE(only(b.g, "MatMul").program.has_value() && only(b.g, "MatMul").inputs.size() > 2);
}

TEST(MatMulEpilogue, leaves_a_transpose_that_others_read_in_place_but_reads_past_it) {
  Linear b(DType::f32, {2, 8, 3});
  ValueId t = b.node("t", "Transpose", {b.x}, {2, 3, 8}, DType::f32, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  b.output(b.at("mm", "MatMul", {t, b.w()}));
  b.output(b.node("other", "Neg", {t}, {2, 3, 8}));
  EXPECT_EQ(b.fuse(), 1u);
  EXPECT_EQ(only(b.g, "MatMul").in(0), b.x);
  EXPECT_EQ(count(b.g, "Transpose"), 1u);
}

TEST(MatMulEpilogue, takes_an_activation_written_as_several_nodes) {
  Linear b;
  ValueId y = b.product();
  b.output(b.at("y", "Mul", {y, b.at("tanh", "Tanh", {b.at("softplus", "Softplus", {y})})}));  // Mish
  EXPECT_EQ(b.fuse(), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

TEST(MatMulEpilogue, computes_one_plus_scale_inside) {
  Linear b;
  ValueId scale = b.input("scale", {2, 1, 4}), shift = b.input("shift", {2, 1, 4});
  ValueId one_plus = b.at("one_plus", "Add", {scale, b.scalar(1)}, {2, 1, 4});
  b.output(b.at("y", "Add", {b.at("m", "Mul", {b.product(), one_plus}), shift}));
  EXPECT_EQ(b.fuse(), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

TEST(MatMulEpilogue, proves_a_residual_over_symbolic_shapes) {
  Linear b(DType::f32, {Dim("batch"), Dim("seq"), 8});
  const SymShape s{Dim("batch"), Dim("seq"), 4};
  ValueId r = b.input("r", s);
  ValueId mm = b.node("mm", "MatMul", {b.x, b.w()}, {Dim(), Dim(), 4});
  b.output(b.node("y", "Add", {mm, r}, {Dim(), Dim(), 4}));
  EXPECT_EQ(b.fuse({{"batch", 2}, {"seq", 3}}), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

TEST(MatMulEpilogue, keeps_an_operand_of_unproven_shape_outside) {
  Linear b(DType::f32, {Dim("batch"), 8});
  ValueId mm = b.node("mm", "MatMul", {b.x, b.w()}, {Dim("batch"), 4});
  b.output(b.node("y", "Add", {mm, b.input("r", {Dim("rows"), 4})}, {Dim(), 4}));
  EXPECT_EQ(b.fuse({{"batch", 1}, {"rows", 3}}), 1u);  // the sum is larger than the product
  EXPECT_EQ(count(b.g, "Add"), 1u);
}

TEST(MatMulEpilogue, keeps_an_operand_that_enlarges_the_result_outside) {
  Linear b;
  b.output(b.at("y", "Add", {b.product(), b.input("r", {5, 2, 3, 4})}, {5, 2, 3, 4}));
  EXPECT_EQ(b.fuse(), 1u);
  EXPECT_EQ(count(b.g, "Add"), 1u);
}

TEST(MatMulEpilogue, keeps_a_constant_that_raises_the_rank_outside) {
  Linear b(DType::f32, {3, 8});
  ValueId mm = b.node("mm", "MatMul", {b.x, b.w()}, {3, 4});
  ValueId c = b.constant("c", Tensor::of<float>({1, 1, 1}, {2}));
  b.output(b.node("y", "Add", {mm, c}, {1, 3, 4}));
  EXPECT_EQ(b.fuse(), 1u);
  EXPECT_EQ(count(b.g, "Add"), 1u);
}

TEST(MatMulEpilogue, stops_where_the_result_has_another_reader) {
  Linear b;
  ValueId mm = b.product();
  b.output(b.at("relu", "Relu", {mm}));
  b.output(b.at("soft", "Softmax", {mm}));
  EXPECT_EQ(b.fuse(), 1u);
  EXPECT_EQ(count(b.g, "Relu"), 1u);
}

TEST(MatMulEpilogue, stops_where_the_result_is_a_graph_output) {
  Linear b;
  ValueId mm = b.product();
  b.output(mm);
  b.output(b.at("relu", "Relu", {mm}));
  EXPECT_EQ(b.fuse(), 1u);
  EXPECT_EQ(count(b.g, "Relu"), 1u);
}

TEST(MatMulEpilogue, stops_at_a_node_that_is_not_pointwise) {
  Linear b;
  b.output(b.at("soft", "Softmax", {b.product()}));
  EXPECT_EQ(b.fuse(), 1u);
  EXPECT_EQ(count(b.g, "Softmax"), 1u);
}

TEST(MatMulEpilogue, leaves_vectors_integers_and_unknown_ranks_alone) {
  Linear v(DType::f32, {8});
  v.output(v.node("mm", "MatMul", {v.x, v.w()}, {4}));
  EXPECT_EQ(v.why(), "wrong_rank");
  Linear i(DType::i32);
  i.output(i.product());
  EXPECT_EQ(i.why(), "wrong_type");
  Linear u;
  ValueId any = u.g.add_value("any", DType::f32, std::nullopt);
  u.g.add_input(any);
  u.output(u.at("mm", "MatMul", {any, u.w()}));
  EXPECT_EQ(u.why(), "unknown_shape");
}

struct Gated : Linear {
  ValueId gate, up;
  Gated() : gate(product()), up(at("up", "MatMul", {x, weights("w2", {8, 4})})) {}
  ValueId silu(ValueId v) { return at("silu", "Mul", {v, at("sigmoid", "Sigmoid", {v})}); }
  Ledger fuse() { return rewrite_and_compare(g, {"recognise_silu", "recognise_swiglu"}); }
};

TEST(RecogniseSwiglu, puts_activation_and_product_into_the_gate) {
  Gated b;
  b.output(b.at("y", "Mul", {b.silu(b.gate), b.up}));
  EXPECT_EQ(matches(b.fuse(), "recognise_swiglu"), 1u);
  EXPECT_EQ(b.g.live_nodes(), 2u);
  EXPECT_EQ(only(b.g, "MatMul").in(2), b.up);
}

TEST(RecogniseSwiglu, looks_through_biases) {
  Gated b;
  ValueId g = b.at("gate_bias", "Add", {b.gate, b.weights("b1", {4})}), u = b.at("up_bias", "Add", {b.up, b.weights("b2", {4})});
  b.output(b.at("y", "Mul", {u, b.silu(g)}));
  EXPECT_EQ(matches(b.fuse(), "recognise_swiglu"), 1u);
}

TEST(RecogniseSwiglu, needs_two_products) {
  Gated b;
  b.output(b.at("y", "Mul", {b.silu(b.gate), b.input("z", {2, 3, 4})}));
  b.output(b.up);
  EXPECT_EQ(rejection(b.fuse(), "recognise_swiglu"), "wrong_producer");
  Gated c;
  c.output(c.at("y", "Mul", {c.silu(c.input("z", {2, 3, 4})), c.up}));
  c.output(c.gate);
  EXPECT_EQ(rejection(c.fuse(), "recognise_swiglu"), "wrong_producer");
}

TEST(RecogniseSwiglu, stays_apart_when_the_gate_has_another_reader) {
  Gated b;
  b.output(b.at("y", "Mul", {b.silu(b.gate), b.up}));
  b.output(b.at("soft", "Softmax", {b.gate}));
  EXPECT_EQ(rejection(b.fuse(), "recognise_swiglu"), "extra_reader");
}

TEST(RecogniseSwiglu, stays_apart_when_the_activation_is_a_graph_output) {
  Gated b;
  ValueId act = b.silu(b.gate);
  b.output(b.at("y", "Mul", {act, b.up}));
  b.output(act);
  EXPECT_EQ(rejection(b.fuse(), "recognise_swiglu"), "graph_output");
}

}  // namespace
}  // namespace smelt::fuse
