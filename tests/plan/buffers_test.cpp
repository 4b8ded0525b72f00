// What an Execution does with memory, on random graphs: right answers with every byte poisoned, and no two live tensors
// in the same place.
#include <algorithm>
#include <limits>

#include "plan/buffers.h"
#include "run/execution.h"
#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

/// The references' own loops, step by step: what a run gives is theirs to the bit.
Options by_reference() {
  Options o = quick();
  o.tactics = "-all,+reference";
  return o;
}

/// Executions of the same graph, with how near each comes to the references.
struct Way {
  Options options;
  double tolerance;
};
std::vector<Way> ways() { return {{quick(), rounding}, {unfused(), rounding}, {by_reference(), 0}}; }

Tensor full(const Shape& shape, float value) {
  Tensor t = Tensor::empty(DType::f32, shape);
  std::ranges::fill(t.span<float>(), value);
  return t;
}

class RandomGraph : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraph, testing::Range(0u, 60u));

TEST_P(RandomGraph, matches_the_references_after_a_run_on_nan) {
  const Graph g = random_graph(GetParam());
  const Shape shape = to_shape(*g.value(g.inputs()[0]).shape);
  const Tensor nan = full(shape, std::numeric_limits<float>::quiet_NaN()), x = random_tensor(shape, GetParam() + 1);
  const auto expected = ops::evaluate(g, std::vector{x});
  for (const auto& [options, tolerance] : ways()) {
    const auto plan = Plan::build(clone(g), options);
    const auto execution = plan->execution();
    execution->bind(std::vector{nan});
    execution->run();  // leaves NaN in the whole arena
    execution->bind(std::vector{x});
    execution->run();
    ASSERT_EQ(execution->outputs().size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) expect_same(execution->outputs()[i], expected[i], tolerance);
  }
}

TEST_P(RandomGraph, writes_into_the_callers_memory_aligned_or_not) {
  const Graph g = random_graph(GetParam());
  const auto plan = Plan::build(clone(g), quick());
  const auto execution = plan->execution();
  const Tensor x = random_tensor(to_shape(*g.value(g.inputs()[0]).shape), GetParam() + 2);
  const auto expected = ops::evaluate(g, std::vector{x});
  for (size_t shift : {size_t{0}, size_t{4}, size_t{1}}) {
    std::vector<std::vector<char>> memory;
    std::vector<Tensor> outputs;
    for (const Tensor& e : expected) {
      memory.emplace_back(static_cast<size_t>(e.nbytes()) + 64, static_cast<char>(0xff));
      outputs.push_back(Tensor::borrow(e.type(), e.shape(), memory.back().data() + shift));
    }
    std::vector<char> input(static_cast<size_t>(x.nbytes()) + 64);
    std::memcpy(input.data() + shift, x.raw(), static_cast<size_t>(x.nbytes()));
    execution->bind(std::vector{Tensor::borrow(x.type(), x.shape(), input.data() + shift)}, outputs);
    execution->run();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(execution->outputs()[i].raw(), memory[i].data() + shift);
      Tensor found = Tensor::empty(expected[i].type(), expected[i].shape());
      std::memcpy(found.raw(), memory[i].data() + shift, static_cast<size_t>(found.nbytes()));
      expect_same(found, expected[i], rounding);
      EXPECT_EQ(memory[i][static_cast<size_t>(found.nbytes()) + shift], static_cast<char>(0xff)) << "written past the end";
    }
  }
}

TEST(Buffers, an_output_may_be_written_over_the_input_that_it_is_made_from) {
  int tried = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const Graph g = random_graph(seed);
    const Tensor x = random_tensor(to_shape(*g.value(g.inputs()[0]).shape), seed + 3);
    const auto expected = ops::evaluate(g, std::vector{x});
    if (expected[0].shape() != x.shape()) continue;
    ++tried;
    for (const auto& [options, tolerance] : ways()) {
      const Tensor both = x.clone();
      std::vector<Tensor> outputs(expected.size());
      outputs[0] = both;
      const auto plan = Plan::build(clone(g), options);
      const auto execution = plan->execution();
      execution->bind(std::vector{both}, outputs);
      execution->run();
      for (size_t i = 0; i < expected.size(); ++i) expect_same(execution->outputs()[i], expected[i], tolerance);
    }
  }
  EXPECT_GE(tried, 10);
}

TEST_P(RandomGraph, has_no_two_live_buffers_in_one_place) {
  const auto plan = Plan::build(random_graph(GetParam()), quick());
  run::ExecutionImpl execution(std::dynamic_pointer_cast<const run::PlanImpl>(plan));
  execution.bind(std::vector{random_tensor(to_shape(plan->inputs()[0].shape), 1)});
  for (const run::SegmentState* p : execution.segments()) {
    const auto& buffers = p->segment.buffers;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& a = buffers[i];
      if (a.kind != BufferKind::arena || a.bytes == 0 || a.last < 0) continue;
      EXPECT_EQ(a.offset % 64, 0);
      EXPECT_LE(a.offset + a.bytes, p->segment.arena);
      for (size_t j = 0; j < i; ++j) {
        const Buffer& b = buffers[j];
        if (b.kind != BufferKind::arena || b.bytes == 0 || b.last < 0 || a.first > b.last || b.first > a.last) continue;
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << i << " and " << j;
      }
    }
  }
}

TEST(Buffers, a_concatenation_along_the_first_long_axis_copies_nothing) {
  Builder b;
  const ValueId x = b.input("x", to_sym({1, 4, 8}));
  const ValueId p = b.node("p", "Tanh", {x}, to_sym({1, 4, 8})), q = b.node("q", "Neg", {x}, to_sym({1, 4, 8}));
  const ValueId c = b.node("c", "Concat", {p, q}, to_sym({1, 8, 8}), DType::f32, {{"axis", int64_t{1}}});
  b.output(b.node("y", "Abs", {c}, to_sym({1, 8, 8})));
  const auto plan = Plan::build(std::move(b.g), quick());
  const auto execution = plan->execution();
  execution->bind(std::vector{random_tensor({1, 4, 8}, 1)});
  ASSERT_EQ(execution->steps().size(), 3u);
  for (const StepInfo& s : execution->steps()) EXPECT_NE(s.op, "Concat");
}

TEST(Buffers, a_concatenation_copies_an_input_that_appears_twice_only_once) {
  Builder b;
  const ValueId x = b.input("x", to_sym({1, 4, 8}));
  const ValueId p = b.node("p", "Tanh", {x}, to_sym({1, 4, 8}));
  b.output(b.node("c", "Concat", {p, p}, to_sym({1, 8, 8}), DType::f32, {{"axis", int64_t{1}}}));
  const Graph g = clone(b.g);
  const auto plan = Plan::build(std::move(b.g), quick());
  const auto execution = plan->execution();
  const Tensor in = random_tensor({1, 4, 8}, 1);
  execution->bind(std::vector{in});
  execution->run();
  expect_same(execution->outputs()[0], ops::evaluate(g, std::vector{in})[0], rounding);
}

TEST(Buffers, views_are_no_steps) {
  Builder b;
  const ValueId x = b.input("x", to_sym({2, 3, 4}));
  const ValueId t = b.node("t", "Tanh", {x}, to_sym({2, 3, 4}));
  const ValueId r = b.node("r", "Reshape", {t, b.ints({6, 4})}, to_sym({6, 4}));
  const ValueId u = b.node("u", "Unsqueeze", {r, b.ints({0})}, to_sym({1, 6, 4}));
  b.output(b.node("y", "Neg", {u}, to_sym({1, 6, 4})));
  const auto plan = Plan::build(std::move(b.g), quick());
  const auto execution = plan->execution();
  execution->bind(std::vector{random_tensor({2, 3, 4}, 1)});
  EXPECT_EQ(execution->steps().size(), 2u);
}

TEST(Buffers, a_chain_of_pointwise_operators_runs_in_one_place) {
  Builder b;
  ValueId v = b.input("x", to_sym({1000}));
  for (int i = 0; i < 6; ++i) v = b.node("n" + std::to_string(i), "Tanh", {v}, to_sym({1000}));
  b.output(v);
  const auto plan = Plan::build(std::move(b.g), quick());
  const auto execution = plan->execution();
  execution->bind(std::vector{random_tensor({1000}, 1)});
  EXPECT_LT(execution->memory().arena, 2 * 4000);  // one tensor and a workspace
}

TEST(Buffers, each_step_holds_what_is_bound_and_what_is_alive) {
  Segment s;
  s.steps.resize(3);
  s.steps[1].workspace = 5;
  s.buffers = {{.kind = BufferKind::external, .bytes = 100}, {.kind = BufferKind::result, .bytes = 50},
               {.kind = BufferKind::constant, .bytes = 7},   {.bytes = 64, .first = 0, .last = 1},
               {.bytes = 32, .first = 1, .last = 2},         {.bytes = 16, .first = 1, .last = 1}};
  const auto held = held_by_step(s);
  ASSERT_EQ(held.size(), 3u);
  for (const StepMemory& m : held) EXPECT_EQ(m.bound, 150);
  EXPECT_EQ(held[0].activations, 64);
  EXPECT_EQ(held[1].activations, 64 + 32);
  EXPECT_EQ(held[2].activations, 32);
  EXPECT_EQ(held[1].workspace, 16);
  EXPECT_EQ(held[1].total(), 150 + 96 + 16);
  EXPECT_EQ(held[2].workspace, 0);
}

TEST(Buffers, an_output_that_is_an_input_or_a_constant_is_given_too) {
  Builder b;
  const ValueId x = b.input("x", to_sym({3}));
  b.output(x);
  b.output(b.constant("c", Tensor::of<float>({2}, {1, 2})));
  b.output(b.node("i", "Identity", {x}, to_sym({3})));
  const auto plan = Plan::build(std::move(b.g), quick());
  Session session(plan);
  const Tensor in = random_tensor({3}, 5);
  const auto out = session.run({{"x", in}});
  ASSERT_EQ(out.size(), 3u);
  expect_same(out.at("x"), in);
  expect_same(out.at("c"), Tensor::of<float>({2}, {1, 2}));
  expect_same(out.at("i_out"), in);
  for (const auto& [name, t] : out) EXPECT_NE(t.raw(), in.raw()) << name << " is not a tensor of its own";
}

}  // namespace
}  // namespace smelt::plan
