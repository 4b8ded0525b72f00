// Softmax recognised from its parts, and moved between transposes.
#include "fuse/rewrites/rewrites.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

/// A softmax of x over its last axis, written by hand.
struct Parts : Builder {
  SymShape shape{2, 3, 8}, reduced{2, 3, 1};
  ValueId x = input("x", shape);

  ValueId reduce(const std::string& n, const std::string& op, ValueId v, std::vector<int64_t> axes = {-1}, int64_t keep = 1) {
    return node(n, op, {v, ints(axes)}, reduced, DType::f32, {{"keepdims", keep}});
  }
  ValueId exponentials() {
    return node("exp", "Exp", {node("sub", "Sub", {x, reduce("max", "ReduceMax", x, {2})}, shape)}, shape);
  }
  ValueId quotient(ValueId e) { return node("y", "Div", {e, reduce("sum", "ReduceSum", e)}, shape); }
  void expect_softmax(size_t nodes = 1) {
    EXPECT_EQ(matches(rewrite_and_compare(g, {"recognise_softmax"}), "recognise_softmax"), 1u);
    EXPECT_EQ(g.live_nodes(), nodes);
    EXPECT_EQ(count(g, "Softmax"), 1u);
  }
};

TEST(RecogniseSoftmax, takes_the_quotient) {
  Parts b;
  b.output(b.quotient(b.exponentials()));
  b.expect_softmax();
}

TEST(RecogniseSoftmax, takes_the_product_with_the_reciprocal) {
  for (const bool division : {true, false}) {
    Parts b;
    const ValueId e = b.exponentials(), sum = b.reduce("sum", "ReduceSum", e, {2});
    const ValueId inverse =
        division ? b.node("inv", "Div", {b.scalar(1), sum}, b.reduced) : b.node("inv", "Reciprocal", {sum}, b.reduced);
    b.output(b.node("y", "Mul", {inverse, e}, b.shape));
    b.expect_softmax();
  }
}

TEST(RecogniseSoftmax, takes_exponentials_without_the_largest_and_what_else_they_are_of) {
  Parts b;
  b.output(b.quotient(b.node("exp", "Exp", {b.x}, b.shape)));
  b.expect_softmax();
  Parts c;  // the largest along another axis: of that difference
  const ValueId largest = c.node("max", "ReduceMax", {c.x, c.ints({1})}, {2, 1, 8});
  c.output(c.quotient(c.node("exp", "Exp", {c.node("sub", "Sub", {c.x, largest}, c.shape)}, c.shape)));
  c.expect_softmax(3);
}

TEST(RecogniseSoftmax, takes_the_exponential_of_its_logarithm) {
  Parts b;
  b.output(b.node("y", "Exp", {b.node("log", "LogSoftmax", {b.x}, b.shape, DType::f32, {{"axis", int64_t{2}}})}, b.shape));
  b.expect_softmax();
  Parts c;
  c.output(c.node("y", "Exp", {c.node("log", "Sub", {c.x, c.reduce("lse", "ReduceLogSumExp", c.x)}, c.shape)}, c.shape));
  c.expect_softmax();
}

TEST(RecogniseSoftmax, stays_apart_where_the_exponentials_are_seen) {
  Parts b;
  const ValueId e = b.exponentials();
  b.output(b.quotient(e));
  b.output(e);
  EXPECT_EQ(verdict(b, recognise_softmax, "y"), "graph_output by exp");
  Parts c;
  const ValueId f = c.exponentials();
  c.output(c.quotient(f));
  c.output(c.node("z", "Neg", {f}, c.shape));
  EXPECT_EQ(verdict(c, recognise_softmax, "y"), "extra_reader by z");
}

TEST(RecogniseSoftmax, needs_a_sum_along_one_axis_that_stays) {
  Parts b;
  b.reduced = {2, 1, 1};
  const ValueId e = b.node("exp", "Exp", {b.x}, b.shape);
  b.output(b.node("y", "Div", {e, b.reduce("sum", "ReduceSum", e, {1, 2})}, b.shape));
  EXPECT_EQ(verdict(b, recognise_softmax, "y"), "not here");
  Parts c;
  c.shape = {3, 3, 3};
  c.reduced = {3, 3};
  const ValueId f = c.node("exp", "Exp", {c.input("z", c.shape)}, c.shape);
  c.output(c.node("y", "Div", {f, c.reduce("sum", "ReduceSum", f, {2}, 0)}, c.shape));
  EXPECT_EQ(verdict(c, recognise_softmax, "y"), "not here");
}

/// Softmax over `axis` of x [2, 3, 4, 5] between two transposes.
struct Between : Builder {
  ValueId moved, result;
  Between(std::vector<int64_t> first, std::vector<int64_t> second, int64_t axis, SymShape between, SymShape after) {
    moved = node("before", "Transpose", {input("x", {2, 3, 4, 5})}, between, DType::f32, {{"perm", std::move(first)}});
    const ValueId p = node("softmax", "Softmax", {moved}, between, DType::f32, {{"axis", axis}});
    result = node("after", "Transpose", {p}, std::move(after), DType::f32, {{"perm", std::move(second)}});
  }
};

TEST(TransposedSoftmax, goes_along_the_axis_that_was_moved) {
  Between b({0, 2, 3, 1}, {0, 3, 1, 2}, -1, {2, 4, 5, 3}, {2, 3, 4, 5});
  b.output(b.result);
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"transposed_softmax"}), "transposed_softmax"), 1u);
  EXPECT_EQ(only(b.g, "Softmax", onnx_domain).get_int("axis", -1), 1);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

TEST(TransposedSoftmax, goes_before_a_transpose_that_moved_the_last_axis) {
  Between b({0, 1, 3, 2}, {1, 0, 2, 3}, 2, {2, 3, 5, 4}, {3, 2, 5, 4});
  b.output(b.g.node(b["softmax"]).out());
  b.g.remove_node(b["after"]);
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"dead_code", "transposed_softmax"}), "transposed_softmax"), 1u);
  EXPECT_EQ(only(b.g, "Softmax", onnx_domain).get_int("axis", 0), -1);
  EXPECT_EQ(count(b.g, "Transpose"), 1u);
}

TEST(TransposedSoftmax, leaves_the_first_transpose_to_its_other_readers) {
  Between b({0, 2, 3, 1}, {0, 3, 1, 2}, -1, {2, 4, 5, 3}, {2, 3, 4, 5});
  b.output(b.result);
  b.output(b.node("z", "Neg", {b.moved}, {2, 4, 5, 3}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"transposed_softmax"}), "transposed_softmax"), 1u);
  EXPECT_EQ(count(b.g, "Transpose"), 1u);
}

TEST(TransposedSoftmax, needs_transposes_that_undo_each_other) {
  Between b({0, 2, 3, 1}, {0, 2, 3, 1}, -1, {2, 4, 5, 3}, {2, 5, 3, 4});
  b.output(b.result);
  EXPECT_EQ(verdict(b, transposed_softmax, "softmax"), "wrong_axis by after");
}

TEST(TransposedSoftmax, stays_where_something_else_reads_it) {
  Between b({0, 2, 3, 1}, {0, 3, 1, 2}, -1, {2, 4, 5, 3}, {2, 3, 4, 5});
  b.output(b.result);
  b.output(b.node("z", "Neg", {b.g.node(b["softmax"]).out()}, {2, 4, 5, 3}));
  EXPECT_EQ(verdict(b, transposed_softmax, "softmax").substr(0, 12), "extra_reader");
}

}  // namespace
}  // namespace smelt::fuse
