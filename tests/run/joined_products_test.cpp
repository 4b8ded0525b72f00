// Products of one input run as one where that is faster by the timings, and apart otherwise; either way they compute the same.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "run/execution.h"
#include "support/graphs.h"
#include "tune/cache.h"

namespace smelt::run {

using namespace test;

namespace {

/// Softmax over the rows of x · q + bq and of x · k, and their sum: both are read by kernels that follow strides.
/// `transposed`: the weights are, and x is a matrix. `concat`: and a concatenation reads the second, which takes no slice.
Graph projections(bool transposed, bool concat, SymShape rows = to_sym({2, 12})) {
  Builder b;
  const auto with = [&](int64_t columns) {
    SymShape s = rows;
    s.push_back(columns);
    return s;
  };
  const ValueId x = b.input("x", with(40));
  const auto product = [&](const std::string& name, int64_t columns, uint64_t seed) {
    const ValueId w = b.constant(name + ".w", random_tensor(transposed ? Shape{columns, 40} : Shape{40, columns}, seed));
    if (!transposed) return b.node(name, "MatMul", {x, w}, with(columns));
    return b.node(name, "Gemm", {x, w}, with(columns), DType::f32, {{"transB", int64_t{1}}});
  };
  const ValueId q = b.node("q.b", "Add", {product("q", 24, 1), b.constant("bq", random_tensor({24}, 2))}, with(24));
  const ValueId k = product("k", 24, 3), v = product("v", 16, 4);
  for (const ValueId y : {q, k, v}) b.output(b.node(b.g.value(y).name + ".soft", "Softmax", {y}, *b.g.value(y).shape));
  if (concat) b.output(b.node("both", "Concat", {k, v}, with(40), DType::f32, {{"axis", int64_t{-1}}}));
  return std::move(b.g);
}

std::vector<StepInfo> steps_of(const std::shared_ptr<const Plan>& plan, std::span<const Tensor> inputs) {
  ExecutionImpl execution(std::dynamic_pointer_cast<const PlanImpl>(plan));
  execution.bind(inputs);
  return execution.steps();
}

size_t products_in(const std::vector<StepInfo>& steps) {
  return static_cast<size_t>(std::ranges::count_if(steps, [](const StepInfo& s) { return s.problem.starts_with("gemm:"); }));
}

void expect_right(const std::shared_ptr<const Plan>& plan, const Graph& g, std::span<const Tensor> inputs) {
  ExecutionImpl execution(std::dynamic_pointer_cast<const PlanImpl>(plan));
  execution.bind(inputs);
  execution.run();
  const std::vector<Tensor> expected = ops::evaluate(g, {inputs.begin(), inputs.end()});
  ASSERT_EQ(execution.outputs().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) expect_same(execution.outputs()[i], expected[i], 1e-5);
}

class JoinedOrApart : public testing::Test {
 protected:
  JoinedOrApart() : folder_(std::filesystem::path(testing::TempDir()) / ("smelt_joined_products_" + std::to_string(getpid()))) {}
  ~JoinedOrApart() override { std::filesystem::remove_all(folder_); }

  Options options(int level = 1) const {
    Options o;
    o.tuning_level = level;
    o.threads = 1;
    o.cache_dir = folder_.string();
    return o;
  }

  /// The race in the cache says that each way takes so long.
  void time(const Graph& g, std::span<const Tensor> inputs, double joined_us, double apart_us) const {
    steps_of(Plan::build(clone(g), options()), inputs);
    const auto cache = tune::Cache::open_or_throw(tune::cache_path(folder_));
    std::vector<tune::CacheEntry> entries = cache->list();
    cache->clear();
    size_t races = 0;
    for (tune::CacheEntry& e : entries) {
      if (e.key.problem.starts_with("joined or apart: ")) {
        ++races;
        for (tune::Timing& t : e.timings) {
          const double us = t.tactic == "joined" ? joined_us : apart_us;
          t = {t.tactic, t.config, us, us, us, us, us, 5};
        }
      }
      cache->keep(std::move(e));
    }
    EXPECT_GE(races, 1u);
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(JoinedOrApart, run_as_one_whose_readers_read_slices_where_that_is_faster) {
  for (bool transposed : {false, true}) {
    SCOPED_TRACE(transposed);
    const Graph g = transposed ? projections(true, false, to_sym({24})) : projections(false, false);
    const std::vector<Tensor> inputs{random_tensor(transposed ? Shape{24, 40} : Shape{2, 12, 40}, 7)};
    time(g, inputs, 1, 1e6);
    const auto plan = Plan::build(clone(g), options());
    const std::vector<StepInfo> steps = steps_of(plan, inputs);
    EXPECT_EQ(products_in(steps), 1u);
    EXPECT_EQ(steps.size(), 4u) << "no step takes the result apart";
    const auto product = std::ranges::find_if(steps, [](const StepInfo& s) { return s.problem.starts_with("gemm:"); });
    EXPECT_TRUE(product->problem.starts_with(transposed ? "gemm:f32>f32:24x64x40:rcr:" : "gemm:f32>f32:24x64x40:rrr:"))
        << product->problem;
    ASSERT_TRUE(product->fused);
    EXPECT_FALSE(product->fused->runs_apart);
    expect_right(plan, g, inputs);
  }
}

/// The keys are read transposed, as rows of another length: a copy, which reads the slice.
TEST_F(JoinedOrApart, give_slices_to_what_moves_them) {
  Builder b;
  const SymShape rows = to_sym({2, 12, 24});
  const ValueId x = b.input("x", to_sym({2, 12, 40}));
  const ValueId q = b.node("q", "MatMul", {x, b.constant("q.w", random_tensor({40, 24}, 1))}, rows);
  const ValueId k = b.node("k", "MatMul", {x, b.constant("k.w", random_tensor({40, 24}, 2))}, rows);
  const ValueId turned =
      b.node("turned", "Transpose", {k}, to_sym({2, 24, 12}), DType::f32, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  b.output(b.node("q.soft", "Softmax", {q}, rows));
  const ValueId cut = b.node("cut", "Slice", {q, b.ints({2}), b.ints({20}), b.ints({-1}), b.ints({3})}, to_sym({2, 12, 6}));
  b.output(b.node("cut.soft", "Softmax", {cut}, to_sym({2, 12, 6})));
  b.output(b.node("k.soft", "Softmax", {turned}, to_sym({2, 24, 12})));
  const std::vector<Tensor> inputs{random_tensor({2, 12, 40}, 7)};
  time(b.g, inputs, 1, 1e6);
  const auto plan = Plan::build(clone(b.g), options());
  const std::vector<StepInfo> steps = steps_of(plan, inputs);
  EXPECT_EQ(products_in(steps), 1u);
  EXPECT_EQ(steps.size(), 6u) << "the product, a transpose, a slice and three normalisations";
  expect_right(plan, b.g, inputs);
}

TEST_F(JoinedOrApart, run_apart_where_that_is_not_slower) {
  const Graph g = projections(false, false);
  const std::vector<Tensor> inputs{random_tensor({2, 12, 40}, 7)};
  time(g, inputs, 99, 100);
  const auto plan = Plan::build(clone(g), options());
  const std::vector<StepInfo> steps = steps_of(plan, inputs);
  EXPECT_EQ(products_in(steps), 3u);
  for (const StepInfo& s : steps) {
    if (!s.problem.starts_with("gemm:")) continue;
    ASSERT_TRUE(s.fused);
    EXPECT_TRUE(s.fused->runs_apart);
  }
  expect_right(plan, g, inputs);
}

TEST_F(JoinedOrApart, run_apart_where_a_reader_takes_no_slice) {
  const Graph g = projections(false, true);
  const std::vector<Tensor> inputs{random_tensor({2, 12, 40}, 7)};
  const auto plan = Plan::build(clone(g), options(0));
  const std::vector<StepInfo> steps = steps_of(plan, inputs);
  EXPECT_EQ(products_in(steps), 3u);
  expect_right(plan, g, inputs);
}

TEST_F(JoinedOrApart, follow_rows_that_a_run_decides) {
  const Graph g = projections(false, false, {Dim("batch"), Dim(12)});
  const auto plan = Plan::build(clone(g), options(0));
  for (int64_t batch : {1, 3, 2}) {
    SCOPED_TRACE(batch);
    expect_right(plan, g, std::vector<Tensor>{random_tensor({batch, 12, 40}, 9)});
  }
}

TEST_F(JoinedOrApart, run_apart_in_a_plan_that_is_not_optimised) {
  Graph g = projections(false, false);
  const Graph model = clone(g);
  fuse::run(g);
  Options o = options(0);
  o.optimize = false;
  const auto plan = Plan::build(clone(g), o);
  const std::vector<Tensor> inputs{random_tensor({2, 12, 40}, 7)};
  EXPECT_EQ(products_in(steps_of(plan, inputs)), 3u);
  expect_right(plan, model, inputs);
}

}  // namespace
}  // namespace smelt::run
