#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

struct Rotary : Builder {
  DType type;
  SymShape shape, half;
  ValueId x, cos, sin;
  explicit Rotary(DType t = DType::f32, SymShape s = {2, 4, 3, 8}) : type(t), shape(std::move(s)), half(shape) {
    half.back() = 4;
    x = input("x", shape, t);
    cos = input("cos", {shape[2], 4}, t);
    sin = input("sin", {shape[2], 4}, t);
  }
  ValueId h(const std::string& n, const std::string& op, std::vector<ValueId> in) {
    return node(n, op, std::move(in), half, type);
  }
  ValueId slice(const std::string& n, int64_t begin, int64_t end, int64_t step = 1, ValueId of = ValueId::none) {
    return h(n, "Slice", {of == ValueId::none ? x : of, ints({begin}), ints({end}), ints({-1}), ints({step})});
  }
  std::pair<ValueId, ValueId> split() {
    ValueId a = g.add_value("a", type, half), b = g.add_value("b", type, half);
    g.sources().push_back({"split", "Split", {}});
    g.add_node({.op = "Split",
                .name = "split",
                .inputs = {x},
                .outputs = {a, b},
                .attrs = {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}}});
    return {a, b};
  }
  ValueId first(ValueId a, ValueId b) { return h("sub", "Sub", {h("ac", "Mul", {a, cos}), h("bs", "Mul", {b, sin})}); }
  ValueId second(ValueId a, ValueId b) { return h("add", "Add", {h("as", "Mul", {a, sin}), h("bc", "Mul", {cos, b})}); }
  ValueId concat(ValueId a, ValueId b) { return node("y", "Concat", {a, b}, shape, type, {{"axis", int64_t{-1}}}); }
  Ledger fuse(const Bindings& symbols = {}) { return rewrite_and_compare(g, {"recognise_rotary"}, symbols); }
  std::string why() { return rejection(run_only(g, "recognise_rotary"), "recognise_rotary"); }
};

TEST(RecogniseRotary, takes_halves_by_split_in_every_float_type) {
  for (DType t : {DType::f32, DType::f64, DType::f16}) {
    SCOPED_TRACE(name(t));
    Rotary b(t);
    auto [p, q] = b.split();
    b.output(b.concat(b.first(p, q), b.second(p, q)));
    EXPECT_EQ(matches(b.fuse(), "recognise_rotary"), 1u);
    EXPECT_EQ(b.g.live_nodes(), 1u);
    EXPECT_EQ(only(b.g, "RotaryEmbedding").get_int("interleaved", 0), 0);
  }
}

TEST(RecogniseRotary, takes_halves_by_slices) {
  Rotary b;
  ValueId p = b.slice("p", 0, 4), q = b.slice("q", 4, INT64_MAX);
  b.output(b.concat(b.first(p, q), b.second(p, q)));
  EXPECT_EQ(matches(b.fuse(), "recognise_rotary"), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

TEST(RecogniseRotary, takes_the_sum_with_turned_halves) {
  Rotary b;
  ValueId cos = b.input("wide_cos", {3, 8}), sin = b.input("wide_sin", {3, 8});
  ValueId turned = b.node("turn", "Concat", {b.h("neg", "Neg", {b.slice("q", 4, 8)}), b.slice("p", 0, 4)}, b.shape, b.type,
                          {{"axis", int64_t{3}}});
  b.output(b.node("y", "Add", {b.node("xc", "Mul", {b.x, cos}, b.shape), b.node("ts", "Mul", {sin, turned}, b.shape)}, b.shape));
  EXPECT_EQ(matches(b.fuse(), "recognise_rotary"), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

TEST(RecogniseRotary, takes_interleaved_pairs) {
  Rotary b;
  ValueId p = b.slice("p", 0, INT64_MAX, 2), q = b.slice("q", 1, INT64_MAX, 2);
  SymShape pair = b.half, pairs = b.half;
  pair.push_back(1);
  pairs.push_back(2);
  ValueId u1 = b.node("u1", "Unsqueeze", {b.first(p, q), b.ints({-1})}, pair),
          u2 = b.node("u2", "Unsqueeze", {b.second(p, q), b.ints({-1})}, pair);
  ValueId both = b.node("both", "Concat", {u1, u2}, pairs, b.type, {{"axis", int64_t{-1}}});
  b.output(b.node("y", "Reshape", {both, b.ints({2, 4, 3, 8})}, b.shape));
  EXPECT_EQ(matches(b.fuse(), "recognise_rotary"), 1u);
  EXPECT_EQ(only(b.g, "RotaryEmbedding").get_int("interleaved", 0), 1);
}

TEST(RecogniseRotary, works_over_symbolic_shapes) {
  Rotary b(DType::f32, {Dim("batch"), 4, Dim("seq"), 8});
  auto [p, q] = b.split();
  b.output(b.concat(b.first(p, q), b.second(p, q)));
  EXPECT_EQ(matches(b.fuse({{"batch", 2}, {"seq", 3}}), "recognise_rotary"), 1u);
}

TEST(RecogniseRotary, needs_halves_of_one_value) {
  Rotary b;
  ValueId z = b.input("z", b.shape), p = b.slice("p", 0, 4), q = b.slice("q", 4, 8, 1, z);
  b.output(b.concat(b.first(p, q), b.second(p, q)));
  EXPECT_EQ(b.why(), "wrong_producer");
}

TEST(RecogniseRotary, needs_equal_halves) {
  Rotary b;
  ValueId p = b.slice("p", 0, 4), q = b.slice("q", 3, 7);
  b.output(b.concat(b.first(p, q), b.second(p, q)));
  EXPECT_EQ(b.why(), "not looked at");
}

TEST(RecogniseRotary, needs_the_same_cos_and_sin_twice) {
  Rotary b;
  auto [p, q] = b.split();
  ValueId first = b.first(p, q);
  b.sin = b.input("sin2", {3, 4});
  b.output(b.concat(first, b.second(p, q)));
  EXPECT_EQ(b.why(), "wrong_producer");
}

TEST(RecogniseRotary, needs_tables_that_broadcast_over_x) {
  Rotary b(DType::f32, {2, 4, Dim("seq"), 8});
  b.cos = b.input("c2", {Dim("len"), 4});
  auto [p, q] = b.split();
  b.output(b.concat(b.first(p, q), b.second(p, q)));
  EXPECT_EQ(b.why(), "wrong_shape");
}

TEST(RecogniseRotary, leaves_even_and_odd_elements_put_one_behind_the_other) {
  Rotary b;
  ValueId p = b.slice("p", 0, INT64_MAX, 2), q = b.slice("q", 1, INT64_MAX, 2);
  b.output(b.concat(b.first(p, q), b.second(p, q)));
  EXPECT_EQ(b.why(), "wrong_reader");
}

TEST(RecogniseRotary, stays_apart_when_a_half_has_another_reader) {
  Rotary b;
  auto [p, q] = b.split();
  b.output(b.concat(b.first(p, q), b.second(p, q)));
  b.output(b.h("z", "Neg", {p}));
  EXPECT_EQ(b.why(), "extra_reader");
}

TEST(RecogniseRotary, stays_apart_when_a_value_inside_is_a_graph_output) {
  Rotary b;
  auto [p, q] = b.split();
  ValueId first = b.first(p, q);
  b.output(b.concat(first, b.second(p, q)));
  b.output(first);
  EXPECT_EQ(b.why(), "graph_output");
}

}  // namespace
}  // namespace smelt::fuse
