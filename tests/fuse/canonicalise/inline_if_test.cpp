#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "graph/inline.h"
#include "ops/core/operator.h"
#include "support/builder.h"

namespace smelt::fuse {
namespace {

using testing::ElementsAre;

/// then: (x + c, x, x + c, c), else: (-x, x, -x, c). The names are those of the graph around it.
GraphPtr branch(bool then) {
  Builder b;
  const ValueId x = b.input("x", {2});
  const ValueId c = b.constant("c", Tensor::of<float>({2}, {10, 20}));
  const ValueId y = then ? b.node("y", "Add", {x, c}, {2}) : b.node("y", "Neg", {x}, {2});
  for (ValueId v : {y, x, y, c}) b.g.add_output(v);
  return std::make_shared<Graph>(std::move(b.g));
}

/// x → Relu y → If(cond, y) → 4 outputs
Builder around(ValueId (*condition)(Builder&)) {
  Builder b;
  const ValueId x = b.input("x", {2});
  const ValueId y = b.node("y", "Relu", {x}, {2});
  Node node{.op = "If",
            .name = "if",
            .inputs = {condition(b), y},
            .attrs = {{"then_branch", branch(true)}, {"else_branch", branch(false)}, {"captured", int64_t{1}}}};
  for (const char* name : {"a", "b", "c", "d"}) node.outputs.push_back(b.g.add_value(name, DType::f32, std::nullopt));
  for (ValueId v : node.outputs) b.g.add_output(v);
  b.g.add_node(std::move(node));
  verify(b.g);
  return b;
}

ValueId constantly(Builder& b, bool value) { return b.constant("cond", Tensor::scalar(value)); }

TEST(InlineIf, takes_the_branch_of_a_constant_condition) {
  for (const bool taken : {true, false}) {
    Builder b =
        taken ? around([](Builder& g) { return constantly(g, true); }) : around([](Builder& g) { return constantly(g, false); });
    const std::vector<Tensor> in{Tensor::of<float>({2}, {1, 2})};
    const auto expected = ops::evaluate(b.g, in);
    apply_match(b, inline_if, "if");
    EXPECT_EQ(count(b.g, "If"), 0u);
    EXPECT_EQ(count(b.g, taken ? "Add" : "Neg"), 1u);
    const auto found = ops::evaluate(b.g, in);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(found[i].to_doubles(), expected[i].to_doubles()) << "output " << i;
  }
}

TEST(InlineIf, keeps_the_names_of_the_outputs_and_learns_their_shapes) {
  Builder b = around([](Builder& g) { return constantly(g, true); });
  apply_match(b, inline_if, "if");
  std::vector<std::string> names;
  for (ValueId v : b.g.outputs()) {
    names.push_back(b.g.value(v).name);
    EXPECT_EQ(b.g.value(v).shape, (SymShape{2}));
  }
  EXPECT_THAT(names, ElementsAre("a", "b", "c", "d"));
}

TEST(InlineIf, leaves_a_computed_condition_alone) {
  const Builder b = around([](Builder& g) {
    const ValueId sum = g.node("sum", "ReduceSum", {g.g.inputs()[0]}, SymShape{}, DType::f32, {{"keepdims", int64_t{0}}});
    return g.node("cond", "Greater", {sum, g.scalar(0)}, SymShape{}, DType::boolean);
  });
  EXPECT_EQ(verdict(b, inline_if, "if"), "not_constant by cond");
}

TEST(InlineIf, leaves_a_branch_alone_that_does_not_fit) {
  Builder b = around([](Builder& g) { return constantly(g, true); });
  const GraphPtr body = b.g.node(b["if"]).get_graph("then_branch");
  body->set_outputs({body->outputs()[0]});
  EXPECT_EQ(verdict(b, inline_if, "if"), "unsupported by if");
  EXPECT_THAT(*cannot_inline(b.g, b["if"], true), testing::HasSubstr("has 4 outputs, its then_branch has 1"));
}

TEST(InlineIf, takes_nested_branches_too) {
  Builder b = around([](Builder& g) { return constantly(g, true); });
  Builder outer;
  const ValueId x = outer.input("x", {2});
  Node node{.op = "If",
            .name = "outer",
            .inputs = {outer.constant("cond", Tensor::scalar(true)), x},
            .attrs = {{"then_branch", std::make_shared<Graph>(clone(b.g))},
                      {"else_branch", std::make_shared<Graph>(clone(b.g))},
                      {"captured", int64_t{1}}}};
  for (int i = 0; i < 4; ++i) node.outputs.push_back(outer.g.add_value("out", DType::f32, SymShape{2}));
  for (ValueId v : node.outputs) outer.g.add_output(v);
  outer.g.add_node(std::move(node));
  const std::vector<Tensor> in{Tensor::of<float>({2}, {-1, 2})};
  const auto expected = ops::evaluate(outer.g, in);
  run(outer.g);
  EXPECT_EQ(count(outer.g, "If"), 0u);
  const auto found = ops::evaluate(outer.g, in);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(found[i].to_doubles(), expected[i].to_doubles()) << "output " << i;
}

}  // namespace
}  // namespace smelt::fuse
