#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

const SymShape shape{2, 3, 4};

struct Region : Builder {
  ValueId x = input("x", shape), z = input("z", shape);
  ValueId at(const std::string& n, const std::string& op, std::vector<ValueId> in) { return node(n, op, std::move(in), shape); }
  Ledger fuse(const Bindings& symbols = {}) { return rewrite_and_compare(g, {"pointwise_region"}, symbols); }
};

TEST(PointwiseRegion, takes_a_chain_with_broadcast_operands) {
  Region b;
  ValueId v = b.at("add", "Add", {b.x, b.input("bias", {4})});
  v = b.at("mul", "Mul", {b.at("exp", "Exp", {v}), b.input("rows", {3, 1})});
  b.output(b.at("y", "Sub", {v, b.z}));
  EXPECT_EQ(matches(b.fuse(), "pointwise_region"), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
  EXPECT_EQ(only(b.g, "Pointwise").inputs.size(), 4u);
}

TEST(PointwiseRegion, gives_every_value_that_is_read_outside) {
  Region b;
  ValueId a = b.at("a", "Neg", {b.x}), e = b.at("e", "Exp", {a});
  b.output(b.at("soft", "Softmax", {a}));
  b.output(e);
  b.output(b.at("y", "Add", {e, b.z}));
  EXPECT_EQ(matches(b.fuse(), "pointwise_region"), 1u);
  EXPECT_EQ(only(b.g, "Pointwise").outputs.size(), 3u);
}

TEST(PointwiseRegion, takes_mixed_types_with_casts) {
  Builder b;
  ValueId h = b.input("h", shape, DType::f16);
  ValueId wide = b.node("up", "Cast", {h}, shape, DType::f32, {{"to", int64_t{1}}});
  ValueId flag = b.node("flag", "Greater", {wide, b.scalar(0)}, shape, DType::boolean);
  ValueId sine = b.node("sin", "Sin", {wide}, shape);
  ValueId picked = b.node("pick", "Where", {flag, sine, b.scalar(2)}, shape);
  b.output(b.node("y", "Cast", {picked}, shape, DType::f16, {{"to", int64_t{10}}}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"pointwise_region"}), "pointwise_region"), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

/// x by a gate of bytes, one for each of the axis in the middle; `readers` of its numbers.
struct Gated : Region {
  ValueId gate;
  explicit Gated(const SymShape& of_gate = {2, 3, 1}) {
    gate = node("d", "DequantizeLinear", {input("bytes", of_gate, DType::u8), scalar(0.01), scalar(5, DType::u8)}, of_gate);
    output(at("y", "Abs", {at("mul", "Mul", {x, gate})}));
  }
};

TEST(PointwiseRegion, reads_bytes_that_are_spread_as_bytes) {
  Gated b;
  EXPECT_EQ(matches(b.fuse(), "pointwise_region"), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
  EXPECT_EQ(b.g.value(only(b.g, "Pointwise").in(0)).type, DType::u8);
}

TEST(PointwiseRegion, does_not_spread_bytes_whose_numbers_are_read_elsewhere) {
  Gated b;
  b.output(b.node("soft", "Softmax", {b.gate}, {2, 3, 1}));
  EXPECT_EQ(matches(b.fuse(), "pointwise_region"), 2u);
  Gated as_output;
  as_output.output(as_output.gate);
  EXPECT_EQ(matches(as_output.fuse(), "pointwise_region"), 2u);
}

TEST(PointwiseRegion, does_not_spread_bytes_of_a_lower_rank) {
  Gated b({3, 1});
  EXPECT_EQ(matches(b.fuse(), "pointwise_region"), 2u);
}

TEST(PointwiseRegion, takes_a_node_of_its_own) {
  Region b;
  b.output(b.at("y", "Erf", {b.x}));
  EXPECT_EQ(matches(b.fuse(), "pointwise_region"), 1u);
}

TEST(PointwiseRegion, works_over_symbolic_shapes) {
  Builder b;
  const SymShape s{Dim("n"), Dim("m")}, unknown{Dim(), Dim()};
  ValueId x = b.input("x", s), z = b.input("z", s);
  b.output(b.node("y", "Add", {b.node("exp", "Exp", {x}, unknown), z}, unknown));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"pointwise_region"}, {{"n", 3}, {"m", 4}}), "pointwise_region"), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

TEST(PointwiseRegion, ends_where_the_shape_changes) {
  Region b;
  ValueId small = b.node("small", "Exp", {b.input("s", {4})}, {4});
  b.output(b.at("y", "Add", {small, b.x}));
  EXPECT_EQ(matches(b.fuse(), "pointwise_region"), 2u);
  EXPECT_EQ(count(b.g, "Pointwise", smelt_domain), 2u);
}

TEST(PointwiseRegion, ends_where_the_shape_may_change) {
  Builder b;
  ValueId x = b.input("x", {Dim("n"), 4}), z = b.input("z", {Dim("m"), 4});
  b.output(b.node("y", "Add", {b.node("exp", "Exp", {x}, {Dim("n"), 4}), z}, {Dim(), 4}));
  rewrite_and_compare(b.g, {"pointwise_region"}, {{"n", 1}, {"m", 3}});
  EXPECT_EQ(count(b.g, "Pointwise", smelt_domain), 2u);
}

TEST(PointwiseRegion, makes_no_cycle_through_a_node_outside) {
  Region b;  // exp → softmax → add, and exp → add: softmax stands between
  ValueId e = b.at("exp", "Exp", {b.x});
  b.output(b.at("y", "Add", {e, b.at("soft", "Softmax", {e})}));
  b.fuse();
  EXPECT_EQ(count(b.g, "Pointwise", smelt_domain), 2u);
}

TEST(PointwiseRegion, makes_no_cycle_between_two_chains) {
  Region b;  // a → soft1 → c and b → soft2 → d, with a, d and b, c joined
  ValueId p = b.at("p", "Exp", {b.x}), q = b.at("q", "Neg", {b.z});
  ValueId s1 = b.at("s1", "Softmax", {p}), s2 = b.at("s2", "Softmax", {q});
  b.output(b.at("c", "Add", {s1, q}));
  b.output(b.at("d", "Mul", {s2, p}));
  b.fuse();  // the verifier, and the evaluation, would find a cycle
}

TEST(PointwiseRegion, leaves_shape_arithmetic_alone) {
  Builder b;
  ValueId x = b.input("x", {4}, DType::i64);
  b.output(b.node("y", "Add", {x, b.ints({1})}, {4}, DType::i64));
  EXPECT_EQ(rejection(run_only(b.g, "pointwise_region"), "pointwise_region"), "not_profitable");
}

TEST(PointwiseRegion, takes_vectors_of_integers_that_are_no_shapes) {
  for (const auto& [type, extent] : {std::pair(DType::u8, int64_t{4}), std::pair(DType::i64, int64_t{100'000})}) {
    Builder b;
    ValueId x = b.input("x", {extent}, type);
    ValueId y = b.node("y", "Add", {x, x}, {extent}, type);
    b.output(b.node("z", "Mul", {y, x}, {extent}, type));
    EXPECT_EQ(matches(run_only(b.g, "pointwise_region"), "pointwise_region"), 1u) << name(type);
  }
}

TEST(PointwiseRegion, leaves_a_result_whose_rank_a_constant_gives_alone) {
  Builder b;
  ValueId x = b.input("x", {4});
  b.output(b.node("y", "Add", {x, b.constant("c", Tensor::of<float>({1, 1}, {3}))}, {1, 4}));
  EXPECT_EQ(rejection(run_only(b.g, "pointwise_region"), "pointwise_region"), "wrong_rank");
}

TEST(PointwiseRegion, leaves_an_unknown_rank_alone) {
  Builder b;
  ValueId x = b.g.add_value("x", DType::f32, std::nullopt);
  b.g.add_input(x);
  ValueId y = b.node("y", "Exp", {x}, {});
  b.g.set_shape(y, std::nullopt);
  b.output(y);
  EXPECT_EQ(rejection(run_only(b.g, "pointwise_region"), "pointwise_region"), "unknown_shape");
}

TEST(PointwiseRegion, stops_growing_at_twelve_operands) {
  Builder b;
  ValueId v = b.input("x", shape);
  for (int i = 0; i < 20; ++i) v = b.node("add" + std::to_string(i), "Add", {v, b.input("i" + std::to_string(i), shape)}, shape);
  b.output(v);
  rewrite_and_compare(b.g, {"pointwise_region"});
  EXPECT_GE(count(b.g, "Pointwise", smelt_domain), 2u);
  for (NodeId n : b.g.topological()) EXPECT_LE(b.g.node(n).inputs.size(), 12u);
}

}  // namespace
}  // namespace smelt::fuse
