#include "fuse/recognise/written_attention.h"

namespace smelt::fuse {
namespace {

TEST(Attention, takes_the_scale_on_both_factors_in_every_float_type) {
  for (DType t : {DType::f32, DType::f64, DType::f16}) {
    SCOPED_TRACE(name(t));
    Written b(t);
    b.inputs();
    ValueId qs = b.at("qs", "Mul", {b.q, b.number(0.5)}, b.of(2, 4, 3, 8));
    ValueId ks = b.at("ks", "Mul", {b.transposed(b.k), b.number(0.5)}, b.of(2, 4, 8, 5));
    b.output(b.finish(b.product(qs, ks), b.v));
    b.expect_fused();
    EXPECT_EQ(b.g.live_nodes(), 1u);
    EXPECT_EQ(b.scale(), 0.25f);
    EXPECT_EQ(only(b.g, "Attention").in(1), b.k);
  }
}

TEST(Attention, takes_the_scale_on_the_scores_and_a_mask) {
  Written b;
  b.inputs();
  ValueId scaled = b.at("scaled", "Div", {b.product(b.q, b.transposed(b.k)), b.number(4)}, b.scores_shape());
  b.output(b.finish(b.at("masked", "Add", {scaled, b.input("mask", {3, 5})}, b.scores_shape()), b.v));
  b.expect_fused();
  EXPECT_EQ(b.scale(), 0.25f);
  EXPECT_EQ(only(b.g, "Attention").inputs.size(), 4u);
}

TEST(Attention, takes_a_where_mask) {
  Written b;
  b.inputs();
  ValueId keep = b.node("keep", "Greater", {b.input("m", {2, 1, 1, 5}), b.number(-1)}, {2, 1, 1, 5}, DType::boolean);
  b.output(b.finish(b.at("masked", "Where", {keep, b.product(b.q, b.transposed(b.k)), b.number(-1e4)}, b.scores_shape()), b.v));
  b.expect_fused();
}

TEST(Attention, takes_the_nan_guard) {
  Written b;
  b.inputs();
  ValueId p = b.at("softmax", "Softmax", {b.product(b.q, b.transposed(b.k))}, b.scores_shape());
  ValueId nan = b.node("nan", "IsNaN", {p}, b.scores_shape(), DType::boolean);
  b.output(b.at("y", "MatMul", {b.at("guard", "Where", {nan, b.number(0), p}, b.scores_shape()), b.v}, b.of(2, 4, 3, 8)));
  b.expect_fused();
  EXPECT_EQ(only(b.g, "Attention").get_int("nan_guard", 0), 1);
}

TEST(Attention, guards_rows_that_are_masked_whole) {
  Written b;
  b.inputs();
  ValueId mask = b.constant("mask", Tensor::of<float>({3, 1}, {0, -INFINITY, 0}));
  ValueId p = b.at("softmax", "Softmax", {b.at("m", "Add", {b.product(b.q, b.transposed(b.k)), mask}, b.scores_shape())},
                   b.scores_shape());
  ValueId nan = b.node("nan", "IsNaN", {p}, b.scores_shape(), DType::boolean);
  b.output(b.at("y", "MatMul", {b.at("guard", "Where", {nan, b.number(0), p}, b.scores_shape()), b.v}, b.of(2, 4, 3, 8)));
  b.expect_fused();
}

TEST(Attention, reads_keys_that_are_transposed_elsewhere_as_they_are) {
  Written b;
  b.inputs();
  ValueId kt = b.input("kt", b.of(2, 4, 8, 5));
  b.output(b.finish(b.product(b.q, kt), b.v));
  b.expect_fused();
  EXPECT_EQ(only(b.g, "Attention").get_int("k_transposed", 0), 1);
}

TEST(Attention, reads_heads_once_that_are_repeated_for_groups) {
  for (bool tile : {false, true}) {
    Written b;
    b.kv_heads = 2;
    b.inputs();
    ValueId k = b.repeated("k", b.k, tile), v = b.repeated("v", b.v, tile);
    b.output(b.finish(b.product(b.q, b.transposed(k)), v));
    b.expect_fused();
    EXPECT_EQ(b.g.live_nodes(), 1u);
    EXPECT_EQ(only(b.g, "Attention").in(1), b.k);
    EXPECT_EQ(only(b.g, "Attention").in(2), b.v);
  }
}

TEST(Attention, leaves_repeated_keys_that_are_read_again_behind_their_transpose) {
  Written b;
  b.kv_heads = 2;
  b.inputs();
  ValueId kt = b.transposed(b.repeated("k", b.k));
  b.output(b.finish(b.product(b.q, kt), b.repeated("v", b.v)));
  b.output(b.at("other", "Neg", {kt}, b.of(2, 4, 8, 5)));
  EXPECT_EQ(matches(b.fuse(), "attention"), 1u);
  EXPECT_EQ(only(b.g, "Attention").in(1), b.k);
  EXPECT_EQ(count(b.g, "Expand"), 1u);  // the values' repetition is gone, the keys' is not
}

TEST(Attention, works_over_as_many_heads_as_there_are) {
  Written b;
  b.inputs();
  const SymShape any{2, Dim("heads"), 3, 8};
  const ValueId q = b.input("qn", any), k = b.input("kn", any), v = b.input("vn", any);
  const ValueId kt =
      b.node("kt", "Transpose", {k}, {2, Dim("heads"), 8, 3}, b.type, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  const ValueId p = b.at("p", "Softmax", {b.at("s", "MatMul", {q, kt}, {2, Dim("heads"), 3, 3})}, {2, Dim("heads"), 3, 3});
  b.output(b.at("y", "MatMul", {p, v}, any));
  EXPECT_EQ(matches(b.fuse({{"heads", 4}}), "attention"), 1u);
  EXPECT_NO_THROW(ops::expand(b.g, b.g.value(b.g.outputs()[0]).producer));  // the body that a plan has of it
}

TEST(Attention, works_over_symbolic_shapes) {
  Written b;
  b.batch = Dim("batch");
  b.q_len = b.k_len = Dim("seq");
  b.kv_heads = 2;
  b.inputs();
  ValueId k = b.repeated("k", b.k), v = b.repeated("v", b.v);
  ValueId scores = b.node("scores", "MatMul", {b.q, b.transposed(k)}, {Dim(), 4, Dim(), Dim()});
  ValueId masked = b.node("masked", "Add", {scores, b.input("mask", {Dim("seq"), Dim("seq")})}, {Dim(), 4, Dim(), Dim()});
  b.output(b.finish(masked, v));
  b.expect_fused({{"batch", 2}, {"seq", 5}});
}

TEST(Attention, takes_casts_around_the_softmax) {
  Written b(DType::f16);
  b.inputs();
  ValueId wide = b.node("up", "Cast", {b.product(b.q, b.transposed(b.k))}, b.scores_shape(), DType::f32, {{"to", int64_t{1}}});
  ValueId p = b.node("softmax", "Softmax", {wide}, b.scores_shape(), DType::f32);
  ValueId narrow = b.node("down", "Cast", {p}, b.scores_shape(), DType::f16, {{"to", int64_t{10}}});
  b.output(b.at("y", "MatMul", {narrow, b.v}, b.of(2, 4, 3, 8)));
  b.expect_fused();
}

TEST(Attention, stays_apart_from_a_softmax_in_another_type_than_its_sums) {
  Written b;
  b.inputs();
  ValueId wide = b.node("up", "Cast", {b.product(b.q, b.transposed(b.k))}, b.scores_shape(), DType::f64, {{"to", int64_t{11}}});
  ValueId p = b.node("softmax", "Softmax", {wide}, b.scores_shape(), DType::f64);
  ValueId narrow = b.node("down", "Cast", {p}, b.scores_shape(), DType::f32, {{"to", int64_t{1}}});
  b.output(b.at("y", "MatMul", {narrow, b.v}, b.of(2, 4, 3, 8)));
  EXPECT_EQ(b.why(), "wrong_type");
}

TEST(Attention, needs_a_softmax_over_the_last_axis) {
  Written b;
  b.inputs();
  b.output(b.finish(b.product(b.q, b.transposed(b.k)), b.v, 2));
  EXPECT_EQ(b.why(), "wrong_axis");
}

TEST(Attention, stays_apart_when_the_probabilities_have_another_reader) {
  Written b;
  b.inputs();
  b.output(b.finish(b.product(b.q, b.transposed(b.k)), b.v));
  b.output(b.at("z", "Neg", {b.g.node(b["softmax"]).out()}, b.scores_shape()));
  EXPECT_EQ(b.why(), "extra_reader");
}

TEST(Attention, stays_apart_when_the_probabilities_are_a_graph_output) {
  Written b;
  b.inputs();
  b.output(b.finish(b.product(b.q, b.transposed(b.k)), b.v));
  b.output(b.g.node(b["softmax"]).out());
  EXPECT_EQ(b.why(), "graph_output");
}

TEST(Attention, stays_apart_when_the_scores_are_a_graph_output) {
  Written b;
  b.inputs();
  ValueId scores = b.product(b.q, b.transposed(b.k));
  b.output(b.finish(scores, b.v));
  b.output(scores);
  EXPECT_EQ(b.why(), "graph_output");
}

TEST(Attention, needs_a_product_on_both_sides) {
  Written b;
  b.inputs();
  b.output(b.finish(b.input("scores_in", b.scores_shape()), b.v));
  EXPECT_EQ(b.why(), "wrong_producer");
  Written c;
  c.inputs();
  c.output(c.at("softmax", "Softmax", {c.product(c.q, c.transposed(c.k))}, c.scores_shape()));
  EXPECT_EQ(c.why(), "graph_output");
  Written d;
  d.inputs();
  d.output(d.at("relu", "Relu", {d.at("softmax", "Softmax", {d.product(d.q, d.transposed(d.k))}, d.scores_shape())},
                d.scores_shape()));
  EXPECT_EQ(d.why(), "wrong_reader");
}

TEST(Attention, does_not_take_another_value_for_nan) {
  Written b;
  b.inputs();
  ValueId p = b.at("softmax", "Softmax", {b.product(b.q, b.transposed(b.k))}, b.scores_shape());
  ValueId nan = b.node("nan", "IsNaN", {p}, b.scores_shape(), DType::boolean);
  b.output(b.at("y", "MatMul", {b.at("guard", "Where", {nan, b.number(1), p}, b.scores_shape()), b.v}, b.of(2, 4, 3, 8)));
  EXPECT_EQ(b.why(), "wrong_value");
}

/// Attention of q, k and v without the batch, or without heads.
Builder of_shapes(SymShape q, SymShape kt, SymShape v, SymShape scores, SymShape y) {
  Builder b;
  const ValueId product = b.node("s", "MatMul", {b.input("q", std::move(q)), b.input("kt", std::move(kt))}, scores);
  const ValueId p = b.node("softmax", "Softmax", {product}, scores);
  b.output(b.node("y", "MatMul", {p, b.input("v", std::move(v))}, std::move(y)));
  return b;
}

TEST(Attention, of_fewer_than_four_axes_gets_axes_of_one) {
  Builder three = of_shapes({4, 3, 8}, {4, 8, 5}, {4, 5, 8}, {4, 3, 5}, {4, 3, 8});
  EXPECT_EQ(matches(rewrite_and_compare(three.g, {"attention"}), "attention"), 1u);
  EXPECT_EQ(count(three.g, "Unsqueeze"), 3u);
  Builder two = of_shapes({3, 8}, {8, 5}, {5, 8}, {3, 5}, {3, 8});
  EXPECT_EQ(matches(rewrite_and_compare(two.g, {"attention"}), "attention"), 1u);
  EXPECT_EQ(count(two.g, "Unsqueeze"), 3u);
  EXPECT_EQ(count(two.g, "Squeeze"), 1u);
}

TEST(Attention, needs_at_most_four_axes) {
  Builder b = of_shapes({2, 2, 4, 3, 8}, {2, 2, 4, 8, 5}, {2, 2, 4, 5, 8}, {2, 2, 4, 3, 5}, {2, 2, 4, 3, 8});
  EXPECT_EQ(rejection(run_only(b.g, "attention"), "attention"), "wrong_rank");
}

TEST(Attention, takes_a_transposed_query_as_it_is) {
  Written b;
  b.inputs();
  const ValueId q = b.node("turn", "Transpose", {b.input("qt", b.of(2, 4, 8, 3))}, b.of(2, 4, 3, 8), b.type,
                           {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  b.output(b.finish(b.product(q, b.transposed(b.k)), b.v));
  EXPECT_EQ(matches(b.fuse(), "attention"), 1u);
  EXPECT_EQ(only(b.g, "Attention").in(0), q);
}

TEST(Attention, takes_transposed_values_times_transposed_probabilities) {
  for (const bool values_are_turned : {true, false}) {
    Written b;
    b.inputs();
    const auto turned = [&](const std::string& n, ValueId x, SymShape s) {
      return b.node(n, "Transpose", {x}, std::move(s), b.type, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
    };
    const ValueId p = b.at("softmax", "Softmax", {b.product(b.q, b.transposed(b.k))}, b.scores_shape());
    const ValueId v = values_are_turned ? turned("vt", b.v, b.of(2, 4, 8, 5)) : b.input("vt", b.of(2, 4, 8, 5));
    b.output(b.at("y", "MatMul", {v, turned("pt", p, b.of(2, 4, 5, 3))}, b.of(2, 4, 8, 3)));
    EXPECT_EQ(matches(b.fuse(), "attention"), 1u);
    EXPECT_EQ(count(b.g, "Transpose"), values_are_turned ? 1u : 2u);
  }
}

TEST(Attention, reads_one_head_of_keys_and_values_for_all) {
  Written b;
  b.kv_heads = 1;
  b.inputs();
  const ValueId kt = b.node("kt", "Transpose", {b.k}, b.of(2, 1, 8, 5), b.type, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  b.output(b.finish(b.product(b.q, kt), b.v));
  b.expect_fused();
}

TEST(Attention, needs_the_same_batch) {
  Written b;
  b.inputs();
  ValueId v = b.input("v1", b.of(1, 4, 5, 8));
  b.output(b.finish(b.product(b.q, b.transposed(b.k)), v));
  EXPECT_EQ(b.why(), "wrong_shape");
}

TEST(Attention, reads_repeated_values_as_they_are_when_the_keys_are_not_repeated) {
  Written b;
  b.kv_heads = 2;
  b.inputs();
  ValueId v = b.repeated("v", b.v), kt = b.input("kt", b.of(2, 4, 8, 5));
  b.output(b.finish(b.product(b.q, kt), v));
  b.expect_fused();
  EXPECT_EQ(only(b.g, "Attention").in(2), v);
}

TEST(Attention, needs_heads_that_divide) {
  Written b;
  b.inputs();
  ValueId v = b.input("v1", b.of(2, 1, 5, 8));  // one head, broadcast to all by the product
  b.output(b.finish(b.product(b.q, b.transposed(b.k)), v));
  EXPECT_EQ(b.why(), "wrong_shape");
}

TEST(Attention, keeps_all_digits_of_the_scale_in_f64) {
  Written b(DType::f64);
  b.inputs();
  b.output(
      b.finish(b.at("scaled", "Mul", {b.product(b.q, b.transposed(b.k)), b.number(1 / std::sqrt(8.0))}, b.scores_shape()), b.v));
  b.expect_fused();
  EXPECT_EQ(b.scale(), 1.0f);
  EXPECT_TRUE(only(b.g, "Attention").program.has_value());
}

TEST(Attention, needs_a_mask_that_broadcasts_to_the_scores) {
  Written b;
  b.batch = Dim("batch");
  b.inputs();
  ValueId mask = b.input("mask", {Dim("other"), 1, 3, 5});
  b.output(b.finish(b.at("masked", "Add", {b.product(b.q, b.transposed(b.k)), mask}, {Dim(), 4, 3, 5}), b.v));
  EXPECT_EQ(b.why(), "wrong_shape");
}

}  // namespace
}  // namespace smelt::fuse
