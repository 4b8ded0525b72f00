#include <algorithm>
#include <atomic>
#include <thread>

#include "run/execution.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

TEST(Session, runs_a_symbolic_model_at_several_sizes) {
  const Graph g = symbolic_graph();
  Session session(Plan::build(clone(g), quick()));
  for (const Shape& shape : std::vector<Shape>{{1, 3, 4}, {2, 5, 4}, {1, 3, 4}, {7, 1, 4}, {2, 5, 4}}) {
    const Tensor x = random_tensor(shape, static_cast<unsigned>(elements(shape)));
    expect_same(session.run({{"x", x}}).at("y_out"), ops::evaluate(g, std::vector{x})[0], 1e-6);
  }
}

TEST(Session, runs_empty_inputs) {
  const Graph g = symbolic_graph();
  Session session(Plan::build(clone(g), quick()));
  for (const Shape& shape : std::vector<Shape>{{0, 3, 4}, {2, 0, 4}}) {
    EXPECT_EQ(session.run({{"x", Tensor::empty(DType::f32, shape)}}).at("y_out").shape(), (Shape{0, 8}));
  }
}

TEST(Session, keeps_a_bounded_number_of_bound_shapes) {
  const Graph g = symbolic_graph();
  Options options = quick();
  options.kept_shapes = 4;
  Session session(Plan::build(clone(g), options));
  for (int64_t n = 1; n < 3 * options.kept_shapes; ++n) {
    const Tensor x = random_tensor({1, n, 4}, static_cast<unsigned>(n));
    expect_same(session.run({{"x", x}}).at("y_out"), ops::evaluate(g, std::vector{x})[0], 1e-6);
  }
}

TEST(Session, runs_outputs_whose_size_depends_on_the_data) {
  const Graph g = counting_graph();
  const auto plan = Plan::build(clone(g), quick());
  EXPECT_EQ(plan->splits(), std::vector<std::string>{"where"});
  Session session(plan);
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Tensor x = random_tensor({static_cast<int64_t>(seed % 5) * 3}, seed);
    const auto found = session.run({{"x", x}});
    const auto expected = ops::evaluate(g, std::vector{x});
    expect_same(found.at("doubled_out"), expected[0]);
    expect_same(found.at("count_out"), expected[1]);
    expect_same(found.at("square_out"), expected[2]);
  }
}

TEST(Session, what_depends_on_no_data_is_in_the_first_segment) {
  const auto plan = Plan::build(counting_graph(), quick());
  ExecutionImpl execution(std::dynamic_pointer_cast<const PlanImpl>(plan));
  const std::vector<Tensor> x{random_tensor({20}, 3)};
  execution.bind(x);
  execution.run();
  ASSERT_EQ(execution.segments().size(), 2u);
  const auto has_dynamic = [](const SegmentState* p) {
    return std::ranges::any_of(p->segment.steps, [](const plan::Step& s) { return s.kind == plan::StepKind::dynamic; });
  };
  EXPECT_TRUE(has_dynamic(execution.segments()[0]));
  EXPECT_FALSE(has_dynamic(execution.segments()[1]));
  std::vector<StepTime> times;
  execution.run_profiled(times);
  EXPECT_EQ(times.size(), execution.steps().size());
  for (const StepTime& t : times) EXPECT_LE(t.begin_ns, t.end_ns);
}

TEST(Session, memory_for_an_output_of_unknown_size_must_fit) {
  const auto plan = Plan::build(counting_graph(), quick());
  const auto execution = plan->execution();
  const Tensor x = Tensor::of<float>({3}, {1, -1, 2});
  std::vector<Tensor> outputs(3);
  outputs[0] = Tensor::empty(DType::f32, {2});
  execution->bind(std::vector{x}, outputs);
  execution->run();
  expect_same(outputs[0], Tensor::of<float>({2}, {2, 4}));
  outputs[0] = Tensor::empty(DType::f32, {3});
  execution->bind(std::vector{x}, outputs);
  EXPECT_THROW(execution->run(), Error);
}

TEST(Session, returns_only_the_outputs_asked_for_and_rejects_unknown_ones) {
  Session session(Plan::build(counting_graph(), quick()));
  const Tensor x = random_tensor({4}, 1);
  EXPECT_EQ(session.run({{"x", x}}, {"square_out"}).size(), 1u);
  try {
    session.run({{"x", x}}, {"sqare_out"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("did you mean 'square_out'"), std::string::npos);
  }
}

TEST(Session, runs_before_bind_are_refused) {
  const auto execution = Plan::build(counting_graph(), quick())->execution();
  EXPECT_THROW(execution->run(), Error);
}

TEST(Session, a_failed_bind_leaves_the_last_binding_in_place) {
  const Graph g = symbolic_graph();
  const auto execution = Plan::build(clone(g), quick())->execution();
  const Tensor x = random_tensor({1, 2, 4}, 1);
  execution->bind(std::vector{x});
  EXPECT_THROW(execution->bind(std::vector{random_tensor({1, 2, 5}, 1)}), Error);
  execution->run();
  expect_same(execution->outputs()[0], ops::evaluate(g, std::vector{x})[0], 1e-6);
}

TEST(Session, same_inputs_give_the_same_bits) {
  Session session(Plan::build(symbolic_graph(), quick()));
  const Tensor x = random_tensor({3, 37, 4}, 9);
  const Tensor first = session.run({{"x", x}}).at("y_out");
  for (int i = 0; i < 10; ++i) {
    const Tensor again = session.run({{"x", x}}).at("y_out");
    EXPECT_EQ(std::memcmp(first.raw(), again.raw(), static_cast<size_t>(first.nbytes())), 0);
  }
}

TEST(Session, eight_threads_share_several_sessions) {
  const Graph a = symbolic_graph(), b = counting_graph(), c = random_graph(11);
  std::vector<const Graph*> graphs{&a, &b, &c};
  std::vector<Session> sessions;
  for (const Graph* g : graphs) sessions.emplace_back(Plan::build(clone(*g), quick()));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 12; ++i) {
        const size_t which = (t + i) % 3;
        const Graph& g = *graphs[which];
        const Shape shape = which == 0   ? Shape{1 + t % 3, 1 + i % 4, 4}
                            : which == 1 ? Shape{5 + t}
                                         : to_shape(*g.value(g.inputs()[0]).shape);
        const Tensor x = random_tensor(shape, t * 100 + i);
        const auto found = sessions[which].run({{"x", x}});
        const auto expected = ops::evaluate(g, std::vector{x});
        for (size_t o = 0; o < expected.size(); ++o) {
          const auto f = found.at(g.value(g.outputs()[o]).name).to_doubles(), e = expected[o].to_doubles();
          bool same = f.size() == e.size();
          for (size_t k = 0; same && k < f.size(); ++k) same = std::abs(f[k] - e[k]) <= 1e-6 * (1 + std::abs(e[k]));
          wrong += !same;
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace smelt::run
