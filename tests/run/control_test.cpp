// If and Loop: their bodies run as plans of their own.
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

/// if (sum(x) > 0) x + captured else x * 2
TEST(Session, runs_the_branch_that_the_condition_chooses) {
  Builder b;
  const ValueId x = b.input("x", {Dim("n")});
  const ValueId outer = b.node("outer", "Neg", {x}, {Dim("n")});
  const ValueId sum = b.node("sum", "ReduceSum", {x}, SymShape{}, DType::f32, {{"keepdims", int64_t{0}}});
  const ValueId cond = b.node("cond", "Greater", {sum, b.scalar(0)}, SymShape{}, DType::boolean);
  const auto branch = [](const std::string& op, bool uses_captured) {
    Builder body;
    const ValueId bx = body.input("bx", {Dim("n")}), bo = body.input("bo", {Dim("n")});
    body.output(body.node(op + "_n", op, {bx, uses_captured ? bo : bx}, {Dim("n")}));
    return std::make_shared<Graph>(std::move(body.g));
  };
  b.output(b.node("if", "If", {cond, x, outer}, {Dim("n")}, DType::f32,
                  {{"then_branch", branch("Add", true)}, {"else_branch", branch("Mul", false)}, {"captured", int64_t{2}}}));
  const Graph g = clone(b.g);
  Session session(Plan::build(std::move(b.g), quick()));
  for (const Tensor& in : {Tensor::of<float>({2}, {1, 2}), Tensor::of<float>({3}, {-1, -2, -3})}) {
    expect_same(session.run({{"x", in}}).at("if_out"), ops::evaluate(g, std::vector{in})[0]);
  }
}

/// y = x * 2^trips by doubling, and every intermediate value stacked: the loop's output grows with its trips.
TEST(Session, runs_a_loop_whose_result_grows_with_its_trips) {
  Builder b;
  const ValueId trips = b.input("trips", SymShape{}, DType::i64);
  const ValueId x = b.input("x", {Dim("n")});
  Builder body;
  body.input("i", SymShape{}, DType::i64);
  const ValueId keep = body.input("keep", SymShape{}, DType::boolean);
  const ValueId carried = body.input("carried", {Dim("n")});
  const ValueId again = body.node("again", "Identity", {keep}, SymShape{}, DType::boolean);
  const ValueId twice = body.node("twice", "Add", {carried, carried}, {Dim("n")});
  body.output(again);
  body.output(twice);
  body.output(twice);
  const ValueId go = b.g.add_constant("go", Tensor::scalar(true));
  const ValueId last = b.node("loop", "Loop", {trips, go, x}, {Dim("n")}, DType::f32,
                              {{"body", std::make_shared<Graph>(std::move(body.g))}, {"captured", int64_t{0}}});
  const NodeId loop = b["loop"];
  const ValueId stacked = b.g.add_value("stacked", DType::f32, SymShape{Dim("trips"), Dim("n")});
  Node node = b.g.node(loop);
  b.g.remove_node(loop);
  node.outputs = {last, stacked};
  b.g.add_node(std::move(node));
  b.output(last);
  b.output(stacked);
  Session session(Plan::build(std::move(b.g), quick()));
  const Tensor in = Tensor::of<float>({2}, {1, -3});
  for (int64_t n : {3, 1, 5, 3}) {
    const auto out = session.run({{"trips", Tensor::scalar<int64_t>(n)}, {"x", in}});
    const float scale = static_cast<float>(int64_t{1} << n);
    expect_same(out.at("loop_out"), Tensor::of<float>({2}, {scale, -3 * scale}));
    ASSERT_EQ(out.at("stacked").shape(), (Shape{n, 2}));
    EXPECT_EQ(out.at("stacked").to_doubles()[0], 2);
    EXPECT_EQ(out.at("stacked").to_doubles()[static_cast<size_t>(2 * n - 2)], scale);
  }
}

}  // namespace
}  // namespace smelt::run
