#include "fuse/rewrites/rewrites.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

const SymShape shape{2, 3, 4}, reduced{2, 1, 4};

struct Reduction : Builder {
  DType type;
  ValueId x;
  explicit Reduction(DType t = DType::f32) : type(t), x(input("x", shape, t)) {}
  ValueId full(const std::string& n, const std::string& op, std::vector<ValueId> in) {
    return node(n, op, std::move(in), shape, type);
  }
  ValueId small(const std::string& n, const std::string& op, std::vector<ValueId> in) {
    return node(n, op, std::move(in), reduced, type);
  }
  ValueId reduce(ValueId v, const std::string& op = "ReduceMean") { return small("reduce", op, {v, ints({1})}); }
  Ledger fuse() { return rewrite_and_compare(g, {"reduce_region"}); }
};

TEST(ReduceRegion, takes_pointwise_nodes_at_both_ends_in_every_float_type) {
  for (DType t : {DType::f32, DType::f64, DType::f16}) {
    SCOPED_TRACE(name(t));
    Reduction b(t);
    ValueId before = b.full("mul", "Mul", {b.full("exp", "Exp", {b.x}), b.input("z", {4}, t)});
    b.output(b.small("y", "Add", {b.small("sqrt", "Abs", {b.reduce(before)}), b.input("r", {2, 1, 1}, t)}));
    EXPECT_EQ(matches(b.fuse(), "reduce_region"), 1u);
    EXPECT_EQ(b.g.live_nodes(), 1u);
    EXPECT_EQ(only(b.g, "Reduce").get_int("inputs_before", 0), 2);
    EXPECT_EQ(only(b.g, "Reduce").inputs.size(), 3u);
  }
}

TEST(ReduceRegion, takes_every_kind_and_all_axes) {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL2"}) {
    SCOPED_TRACE(op);
    Reduction b;
    b.output(b.reduce(b.full("neg", "Neg", {b.x}), op));
    b.output(b.node("all", op, {b.x}, {}, b.type, {{"keepdims", int64_t{0}}}));
    EXPECT_EQ(matches(b.fuse(), "reduce_region"), 2u);
  }
}

TEST(ReduceRegion, takes_a_pooling_over_an_image_of_bytes_alone) {
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool"}) {
    SCOPED_TRACE(op);
    Builder b;
    const SymShape image{2, 3, 4, 5}, pooled{2, 3, 1, 1};
    const ValueId floats = b.node("cast", "Cast", {b.input("x", image, DType::u8)}, image, DType::f32, {{"to", int64_t{1}}});
    b.output(b.node("y", op, {floats}, pooled));
    EXPECT_EQ(matches(rewrite_and_compare(b.g, {"reduce_region"}), "reduce_region"), 1u);
    EXPECT_EQ(only(b.g, "Reduce").get_ints("axes"), (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(b.g.live_nodes(), 1u);
    Builder c;
    c.output(c.node("y", op, {c.node("neg", "Neg", {c.input("x", image)}, image)}, pooled));
    EXPECT_EQ(verdict(c, reduce_region, "y"), "not here");
  }
}

TEST(ReduceRegion, quantises_what_it_gives) {
  for (const DType bits : {DType::u8, DType::i8}) {
    Reduction b;
    const ValueId q = b.node("q", "QuantizeLinear", {b.reduce(b.x), b.scalar(0.02), b.scalar(3, bits)}, reduced, bits);
    b.output(b.node("y", "Transpose", {q}, {4, 1, 2}, bits, {{"perm", std::vector<int64_t>{2, 1, 0}}}));
    EXPECT_EQ(matches(b.fuse(), "reduce_region"), 1u);
    EXPECT_EQ(b.g.live_nodes(), 2u);
    EXPECT_EQ(b.g.value(only(b.g, "Reduce").out()).type, bits);
  }
}

TEST(ReduceRegion, leaves_a_value_with_another_reader_outside) {
  Reduction b;
  ValueId e = b.full("exp", "Exp", {b.x});
  b.output(b.reduce(e));
  b.output(b.full("soft", "Softmax", {e}));
  EXPECT_EQ(matches(b.fuse(), "reduce_region"), 1u);
  EXPECT_EQ(count(b.g, "Exp"), 1u);
}

TEST(ReduceRegion, leaves_what_enlarges_the_result_outside) {
  Reduction b;
  b.output(b.full("y", "Sub", {b.x, b.reduce(b.x)}));
  EXPECT_EQ(matches(b.fuse(), "reduce_region"), 1u);
  EXPECT_EQ(count(b.g, "Sub"), 1u);
}

TEST(ReduceRegion, leaves_computed_axes_integers_and_unknown_ranks_alone) {
  Reduction b;
  b.output(b.small("y", "ReduceSum", {b.x, b.input("axes", {1}, DType::i64)}));
  EXPECT_EQ(rejection(run_only(b.g, "reduce_region"), "reduce_region"), "not_constant");
  Reduction i(DType::i32);
  i.output(i.reduce(i.x));
  EXPECT_EQ(rejection(run_only(i.g, "reduce_region"), "reduce_region"), "wrong_type");
  Reduction u;
  ValueId any = u.g.add_value("any", DType::f32, std::nullopt);
  u.g.add_input(any);
  u.output(u.reduce(any));
  EXPECT_EQ(rejection(run_only(u.g, "reduce_region"), "reduce_region"), "unknown_shape");
}

}  // namespace
}  // namespace smelt::fuse
