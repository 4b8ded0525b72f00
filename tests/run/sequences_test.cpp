// Sequences among a plan's outputs.
#include "smelt/sequences.h"

#include <gmock/gmock.h>

#include "graph/sequence_outputs.h"
#include "support/errors.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

/// s = [relu(x), -x], t = the rows of |x|, y = exp(x).
Graph with_sequences() {
  Graph g;
  const SymShape shape = {Dim("n"), Dim(3)};
  const ValueId x = g.add_value("x", DType::f32, shape);
  g.add_input(x);
  for (const auto& [op, name] : {std::pair{"Relu", "s_0"}, {"Neg", "s_1"}, {"Abs", "t_stacked"}, {"Exp", "y"}}) {
    const ValueId v = g.add_value(name, DType::f32, shape);
    Node n;
    n.op = op, n.name = name, n.inputs = {x}, n.outputs = {v};
    g.add_node(n);
    g.add_output(v);
  }
  g.model.metadata[sequences_key] = print({{"s", DType::f32, 0, 2, false}, {"t", DType::f32, 2, 1, true}});
  return g;
}

TEST(Sequences, are_lists_of_a_runs_results) {
  Session session(Plan::build(with_sequences(), quick()));
  const Tensor x = random_tensor({4, 3}, 1);
  const auto all = session.run({{"x", x}});
  EXPECT_EQ(all.size(), 4u);
  const std::vector<Tensor> s = sequence(*session.plan(), "s", all), t = sequence(*session.plan(), "t", all);
  ASSERT_EQ(s.size(), 2u);
  ASSERT_EQ(t.size(), 4u);
  for (int64_t i = 0; i < 12; ++i) {
    const float v = x.data<float>()[i];
    EXPECT_EQ(s[0].data<float>()[i], std::max(v, 0.0f));
    EXPECT_EQ(s[1].data<float>()[i], -v);
    EXPECT_EQ(t[static_cast<size_t>(i / 3)].data<float>()[i % 3], std::abs(v));
  }
  EXPECT_EQ(t[0].shape(), Shape{3});
}

TEST(Sequences, are_asked_for_by_their_names) {
  Session session(Plan::build(with_sequences(), quick()));
  const auto some = session.run({{"x", random_tensor({2, 3}, 1)}}, {"t", "s"});
  EXPECT_EQ(some.size(), 3u);
  EXPECT_EQ(sequence(*session.plan(), "t", some).size(), 2u);
  EXPECT_THAT(sequence_outputs(*session.plan()), ::testing::SizeIs(2));
  EXPECT_EQ(error_from([&] { sequence(*session.plan(), "y", some); })->code(), ExitCode::usage);
  EXPECT_EQ(error_from([&] { sequence(*session.plan(), "s", {}); })->code(), ExitCode::usage);
}

TEST(Sequences, parts_of_a_tensor_share_its_memory_and_keep_it) {
  std::vector<Tensor> parts;
  {
    const Tensor t = Tensor::of<int16_t>({2, 2, 1}, {1, 2, 3, 4});
    parts = unstacked(t);
    EXPECT_EQ(parts[1].raw(), t.data<int16_t>() + 2);
  }
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1].shape(), (Shape{2, 1}));
  EXPECT_EQ(parts[1].data<int16_t>()[1], 4);
  EXPECT_EQ(unstacked(Tensor::of_strings({2}, {"a", "b"}))[1].strings(), std::vector<std::string>{"b"});
  EXPECT_TRUE(unstacked(Tensor::empty(DType::f32, {0, 4})).empty());
  EXPECT_TRUE(error_from([] { unstacked(Tensor::scalar<float>(1)); }).has_value());
}

}  // namespace
}  // namespace smelt::run
