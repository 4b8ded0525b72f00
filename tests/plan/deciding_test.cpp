#include "plan/deciding.h"

#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

GraphPtr body_of(Builder b, ValueId y) {
  b.output(y);
  return std::make_shared<Graph>(std::move(b.g));
}

GraphPtr negation() {
  Builder b;
  const ValueId x = b.input("bx", {Dim("n")});
  const ValueId y = b.node("neg", "Neg", {x}, {Dim("n")});
  return body_of(std::move(b), y);
}

/// x [n], flags of one element each, and an If over the condition that `condition` makes of them.
template <class F> Graph graph_of(size_t flags, const F& condition, GraphPtr branch = negation()) {
  Builder b;
  const ValueId x = b.input("x", {Dim("n")});
  std::vector<ValueId> given;
  for (size_t i = 0; i < flags; ++i) given.push_back(b.input("flag" + std::to_string(i), {1}, DType::boolean));
  const ValueId c = condition(b, x, given);
  b.output(b.node("if", "If", {c, x}, {Dim("n")}, DType::f32,
                  {{"then_branch", branch}, {"else_branch", negation()}, {"captured", int64_t{1}}}));
  return std::move(b.g);
}

using Flags = std::vector<ValueId>;

ValueId is_long(Builder& b, ValueId x) {
  const ValueId shape = b.node("shape", "Shape", {x}, {1}, DType::i64);
  return b.node("long", "Greater", {shape, b.ints({4})}, {1}, DType::boolean);
}

ValueId is_positive(Builder& b, ValueId x) {
  const ValueId sum = b.node("sum", "ReduceSum", {x}, SymShape{}, DType::f32, {{"keepdims", int64_t{0}}});
  return b.node("positive", "Greater", {sum, b.scalar(0)}, SymShape{}, DType::boolean);
}

TEST(Deciding, a_boolean_by_itself_or_negated) {
  const Deciding d = what_decides(
      graph_of(1, [](Builder& b, ValueId, const Flags& f) { return b.node("not", "Not", {f[0]}, {1}, DType::boolean); }));
  EXPECT_FALSE(d.shapes);
  EXPECT_EQ(d.inputs, std::vector<size_t>{1});
}

TEST(Deciding, shapes_by_themselves_or_with_a_boolean) {
  const Deciding alone = what_decides(graph_of(0, [](Builder& b, ValueId x, const Flags&) { return is_long(b, x); }));
  EXPECT_TRUE(alone.shapes);
  EXPECT_TRUE(alone.inputs.empty());
  const Deciding both = what_decides(graph_of(1, [](Builder& b, ValueId x, const Flags& f) {
    return b.node("and", "And", {f[0], is_long(b, x)}, {1}, DType::boolean);
  }));
  EXPECT_TRUE(both.shapes);
  EXPECT_EQ(both.inputs, std::vector<size_t>{1});
}

TEST(Deciding, shapes_where_nothing_but_constants_is_part_of_the_condition) {
  const Deciding d = what_decides(graph_of(0, [](Builder& b, ValueId, const Flags&) {
    return b.node("not", "Not", {b.g.add_constant("no", Tensor::of<bool>({1}, {false}))}, {1}, DType::boolean);
  }));
  EXPECT_TRUE(d.shapes) << "they are asked, and find it known";
  EXPECT_TRUE(d.inputs.empty());
}

TEST(Deciding, nothing_where_other_values_are_part_of_the_condition) {
  const Deciding d = what_decides(graph_of(1, [](Builder& b, ValueId x, const Flags& f) {
    return b.node("and", "And", {f[0], is_positive(b, x)}, {1}, DType::boolean);
  }));
  EXPECT_FALSE(d.shapes);
  EXPECT_TRUE(d.inputs.empty());
}

TEST(Deciding, nothing_where_the_forms_would_be_many) {
  const Deciding d = what_decides(graph_of(Deciding::most + 1, [](Builder& b, ValueId, const Flags& f) {
    ValueId all = f[0];
    for (size_t i = 1; i < f.size(); ++i) all = b.node("and" + std::to_string(i), "And", {all, f[i]}, {1}, DType::boolean);
    return all;
  }));
  EXPECT_TRUE(d.inputs.empty());
}

TEST(Deciding, shapes_where_a_branch_holds_an_if) {
  Builder inner;
  const ValueId x = inner.input("bx", {Dim("n")});
  const ValueId c = is_long(inner, x);
  const ValueId y = inner.node("inner", "If", {c, x}, {Dim("n")}, DType::f32,
                               {{"then_branch", negation()}, {"else_branch", negation()}, {"captured", int64_t{1}}});
  const Deciding d = what_decides(graph_of(
      1, [](Builder&, ValueId, const Flags& f) { return f[0]; }, body_of(std::move(inner), y)));
  EXPECT_TRUE(d.shapes);
  EXPECT_EQ(d.inputs, std::vector<size_t>{1});
}

}  // namespace
}  // namespace smelt::plan
