#include <gmock/gmock.h>

#include <algorithm>

#include "fuse/rewrites/rewrites.h"
#include "ops/core/operator.h"
#include "support/builder.h"

namespace smelt::fuse {
namespace {

/// (i, go, sum, w) → (go, sum + w, w through `handed_on`, sum)
GraphPtr adding(const std::vector<const char*>& handed_on) {
  Builder b;
  b.g.add_input(b.g.add_value("i", DType::i64, SymShape{}));
  const ValueId go = b.g.add_value("go", DType::boolean, SymShape{});
  b.g.add_input(go);
  const ValueId sum = b.input("sum", {2}), w = b.input("w", {2});
  ValueId next = w;
  for (const char* op : handed_on) next = b.node(op, op, {next}, {2});
  for (const ValueId v : {go, b.node("y", "Add", {sum, w}, {2}), next, sum}) b.g.add_output(v);
  return std::make_shared<Graph>(std::move(b.g));
}

/// Loop(3, true, x, w) of adding: outputs sum, w, and the sums in between.
Builder around(const std::vector<const char*>& handed_on, bool constant) {
  Builder b;
  const ValueId x = b.input("x", {2});
  const ValueId w = constant ? b.constant("weights", Tensor::of<float>({2}, {10, 20})) : b.node("weights", "Neg", {x}, {2});
  Node node{.op = "Loop",
            .name = "loop",
            .inputs = {b.constant("trips", Tensor::scalar<int64_t>(3)), b.constant("go", Tensor::scalar(true)), x, w},
            .attrs = {{"body", adding(handed_on)}, {"captured", int64_t{0}}}};
  for (const char* name : {"a", "b", "c"}) node.outputs.push_back(b.g.add_value(name, DType::f32, std::nullopt));
  for (ValueId v : node.outputs) b.g.add_output(v);
  b.g.add_node(std::move(node));
  verify(b.g);
  return b;
}

TEST(LoopInvariants, are_captured_and_the_results_stay) {
  for (const bool constant : {true, false}) {
    for (const auto& handed_on : {std::vector<const char*>{}, {"Identity"}}) {
      Builder b = around(handed_on, constant);
      const std::vector<Tensor> in{Tensor::of<float>({2}, {1, 2})};
      const auto expected = ops::evaluate(b.g, in);
      apply_match(b, loop_invariants, "loop");
      const std::vector<NodeId> order = b.g.topological();
      const auto at = std::ranges::find_if(order, [&](NodeId n) { return b.g.node(n).is("Loop"); });
      ASSERT_NE(at, order.end());
      const Node& loop = b.g.node(*at);
      EXPECT_EQ(loop.get_int("captured", 0), 1);
      EXPECT_EQ(loop.outputs.size(), 2u);
      EXPECT_EQ(loop.get_graph("body")->outputs().size(), 3u);
      const auto found = ops::evaluate(b.g, in);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(found[i].to_doubles(), expected[i].to_doubles()) << "output " << i;
        EXPECT_EQ(found[i].shape(), expected[i].shape()) << "output " << i;
      }
    }
  }
}

TEST(LoopInvariants, are_no_states_that_the_body_computes) {
  Builder b = around({"Neg"}, true);
  EXPECT_TRUE(std::holds_alternative<NotHere>(loop_invariants(b.g, b.g.find_node("loop"))));
}

}  // namespace
}  // namespace smelt::fuse
