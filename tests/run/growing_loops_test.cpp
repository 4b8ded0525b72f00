// Loops whose states change their shapes from turn to turn, held to the operators one by one; and how many shapes are kept for them.
#include "ops/core/operator.h"
#include "run/bound_shapes.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

/// all = Loop(trips, state): `make` gives the next state; what a turn's state sums to is stacked.
template <class F> Graph loop(F&& make) {
  Builder b;
  const ValueId trips = b.input("trips", SymShape{}, DType::i64), x = b.input("x", {Dim("n"), Dim(6)});
  Builder body;
  const ValueId i = body.input("i", SymShape{}, DType::i64);
  const ValueId keep = body.input("keep", SymShape{}, DType::boolean), state = body.input("state", {Dim("k"), Dim(6)});
  const ValueId sum = body.node("sum", "ReduceSum", {state, body.ints({0})}, to_sym({1, 6}));
  body.output(body.node("again", "Identity", {keep}, SymShape{}, DType::boolean));
  body.output(make(body, i, state, sum));
  body.output(sum);
  const ValueId go = b.g.add_constant("go", Tensor::scalar(true));
  Node node{.op = "Loop", .name = "loop", .inputs = {trips, go, x}};
  node.attrs = {{"body", std::make_shared<Graph>(std::move(body.g))}, {"captured", int64_t{0}}};
  node.outputs = {b.g.add_value("last", DType::f32, SymShape{Dim("m"), Dim(6)}),
                  b.g.add_value("sums", DType::f32, SymShape{Dim("t"), Dim(1), Dim(6)})};
  const std::vector<ValueId> outputs = node.outputs;
  b.g.add_node(std::move(node));
  for (const ValueId v : outputs) b.output(v);
  return std::move(b.g);
}

ValueId joined(Builder& b, ValueId state, ValueId row) {
  const ValueId t = b.node("t", "Tanh", {row}, to_sym({1, 6}));
  return b.node("more", "Concat", {state, t}, {Dim("j"), Dim(6)}, DType::f32, {{"axis", int64_t{0}}});
}

Graph growing() {
  return loop([](Builder& b, ValueId, ValueId state, ValueId sum) { return joined(b, state, sum); });
}

Graph shrinking() {
  return loop([](Builder& b, ValueId, ValueId state, ValueId) {
    return b.node("less", "Slice", {state, b.ints({1}), b.ints({9999}), b.ints({0})}, {Dim("j"), Dim(6)});
  });
}

/// One row more, and then two of them less: the last ones of an even turn, the first one of an odd turn.
Graph alternating() {
  return loop([](Builder& b, ValueId i, ValueId state, ValueId sum) {
    const ValueId more = joined(b, state, sum);
    const ValueId odd = b.node("odd", "Mod", {i, b.g.add_constant("two", Tensor::scalar<int64_t>(2))}, SymShape{}, DType::i64);
    const ValueId from = b.node("from", "Reshape", {odd, b.ints({1})}, to_sym({1}), DType::i64);
    const ValueId least = b.node("least", "Add", {from, from}, to_sym({1}), DType::i64);
    return b.node("part", "Slice", {more, least, b.ints({9999}), b.ints({0})}, {Dim("p"), Dim(6)});
  });
}

void expect_same_as_operators(Graph g, const std::vector<std::pair<int64_t, int64_t>>& turns_and_rows, Options options) {
  const Graph as_it_is = clone(g);
  Session session(Plan::build(std::move(g), options));
  for (const auto& [turns, rows] : turns_and_rows) {
    SCOPED_TRACE(std::to_string(turns) + " turns of " + std::to_string(rows) + " rows");
    const Tensor trips = Tensor::scalar(turns), x = random_tensor({rows, 6}, static_cast<unsigned>(rows));
    const auto found = session.run({{"trips", trips}, {"x", x}});
    const auto expected = ops::evaluate(as_it_is, std::vector{trips, x});
    expect_same(found.at("last"), expected[0], 1e-4);
    expect_same(found.at("sums"), expected[1], 1e-4);
  }
}

TEST(GrowingLoops, compute_what_the_operators_do_at_every_turn) {
  const std::vector<std::pair<int64_t, int64_t>> longer = {{5, 1}, {30, 0}, {90, 1}, {90, 1}, {3, 200}, {40, 7}};
  const std::vector<std::pair<int64_t, int64_t>> shorter = {{5, 9}, {30, 30}, {8, 70}, {60, 64}, {60, 64}};
  for (const Options& options : {quick(), rewriting(), unfused()}) {
    expect_same_as_operators(growing(), longer, options);
    expect_same_as_operators(shrinking(), shorter, options);
    expect_same_as_operators(alternating(), longer, options);
  }
}

TEST(GrowingLoops, go_on_where_few_shapes_are_kept) {
  Options options = quick();
  options.kept_shapes = 1;
  expect_same_as_operators(growing(), {{50, 1}, {50, 1}, {20, 3}}, options);
  options.kept_bytes = 1;
  expect_same_as_operators(growing(), {{50, 1}, {50, 1}, {20, 3}}, options);
}

std::unique_ptr<SegmentState> planned() { return std::make_unique<SegmentState>(plan::PlannedSegment{}); }
Binding binding(int64_t n) { return {{{n, 4}, {n}}, {}}; }

TEST(BoundShapes, finds_what_was_bound_and_drops_the_least_recently_bound) {
  BoundShapes bound;
  for (int64_t n = 0; n < 5; ++n) bound.add(binding(n), planned());
  EXPECT_TRUE(bound.find(binding(0)));
  EXPECT_EQ(bound.last(), binding(0));
  EXPECT_EQ(bound.beyond(5, 0), 0U);
  ASSERT_EQ(bound.beyond(3, 0), 2U);
  bound.drop(2);
  for (int64_t n : {1, 2, 5}) EXPECT_FALSE(bound.find(binding(n))) << n;
  for (int64_t n : {3, 4, 0}) EXPECT_TRUE(bound.find(binding(n))) << n;
}

TEST(BoundShapes, counts_what_they_hold) {
  BoundShapes bound;
  for (int64_t n = 0; n < 4; ++n) {
    auto state = planned();
    state->step_bytes = 1000;
    bound.add(binding(n), std::move(state));
  }
  EXPECT_EQ(bound.beyond(100, 4000), 0U);
  EXPECT_EQ(bound.beyond(100, 2500), 2U);
  EXPECT_EQ(bound.beyond(100, 1), 3U) << "the last stays";
  bound.state().step_bytes = 5000;  // since it was bound
  EXPECT_TRUE(bound.find(binding(2)));
  EXPECT_EQ(bound.beyond(100, 4000), 3U) << "what is bound least recently goes first, up to what holds much";
}

}  // namespace
}  // namespace smelt::run
