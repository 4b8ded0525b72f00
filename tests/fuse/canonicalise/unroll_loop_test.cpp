#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "ops/core/operator.h"
#include "support/builder.h"
#include "support/random.h"

namespace smelt::fuse {
namespace {

/// How a body says that it goes on.
enum class Goes { on, while_small, by_its_sum };

/// (i, go, sum, n, w) → (go', sum · w + i, n + 2, sum): a captured w.
GraphPtr body_of(Goes goes) {
  Builder b;
  const ValueId i = b.input("i", {}, DType::i64), go = b.input("go", {}, DType::boolean);
  const ValueId sum = b.input("sum", {2}), n = b.input("n", {}, DType::i64), w = b.input("w", {2});
  const ValueId turn = b.node("turn", "Cast", {i}, {}, DType::f32, {{"to", int64_t{1}}});
  const ValueId next = b.node("next", "Add", {b.node("product", "Mul", {sum, w}, {2}), turn}, {2});
  const ValueId more = b.node("more", "Add", {n, b.constant("two", Tensor::scalar<int64_t>(2))}, {}, DType::i64);
  ValueId condition = go;
  if (goes == Goes::while_small)
    condition = b.node("less", "Less", {more, b.constant("most", Tensor::scalar<int64_t>(9))}, {}, DType::boolean);
  if (goes == Goes::by_its_sum) {
    const ValueId total = b.node("total", "ReduceSum", {next}, {}, DType::f32, {{"keepdims", int64_t{0}}});
    condition = b.node("less", "Less", {total, b.scalar(100)}, {}, DType::boolean);
  }
  for (const ValueId v : {condition, next, more, sum}) b.g.add_output(v);
  return std::make_shared<Graph>(std::move(b.g));
}

struct Form {
  Goes goes = Goes::on;
  Tensor trips = Tensor::scalar<int64_t>(5);  // not valid(): left out
  bool computed_trips = false, computed_start = false;
};

/// Loop(trips, true, x, 1, w): outputs the sum, n, and the sums in between.
Builder around(const Form& f) {
  Builder b;
  const ValueId x = b.input("x", {2}), w = b.input("w", {2});
  ValueId trips = f.trips.valid() ? b.constant("trips", f.trips) : ValueId::none;
  if (f.computed_trips) trips = b.input("trips_of_run", {}, DType::i64);
  const ValueId start = f.computed_start ? b.input("start", {}, DType::i64) : b.constant("start", Tensor::scalar<int64_t>(1));
  Node node{.op = "Loop",
            .name = "loop",
            .inputs = {trips, b.constant("go", Tensor::scalar(true)), x, start, w},
            .attrs = {{"body", body_of(f.goes)}, {"captured", int64_t{1}}}};
  for (const DType type : {DType::f32, DType::i64, DType::f32})
    node.outputs.push_back(b.g.add_value(fmt::format("y{}", node.outputs.size()), type, std::nullopt));
  for (const ValueId v : node.outputs) b.g.add_output(v);
  b.g.add_node(std::move(node));
  verify(b.g);
  return b;
}

/// Unrolled, it makes so many turns and the same results.
void expect_turns(const Form& f, int64_t turns) {
  Builder b = around(f);
  const std::vector<Tensor> in{Tensor::of<float>({2}, {1, -2}), Tensor::of<float>({2}, {0.5f, 1.5f})};
  const auto want = ops::evaluate(b.g, in);
  apply_match(b, unroll_loop, "loop");
  EXPECT_EQ(count(b.g, "Loop"), 0u);
  EXPECT_EQ(count(b.g, "Mul"), static_cast<size_t>(turns));
  const auto got = ops::evaluate(b.g, in);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].shape(), want[i].shape());
    EXPECT_EQ(got[i].to_doubles(), want[i].to_doubles());
  }
  // What follows folds the counters: nothing of them is left but what an output needs.
  Options options;
  options.taken_apart = true;  // a GPU's plan
  Graph whole = around(f).g;
  run(whole, options);
  EXPECT_EQ(count(whole, "Loop"), 0u);
  EXPECT_EQ(count(whole, "Less"), 0u);
  const auto after = ops::evaluate(whole, in);
  for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i].to_doubles(), want[i].to_doubles());
}

TEST(UnrollLoop, of_a_constant_number_of_turns) { expect_turns({}, 5); }

TEST(UnrollLoop, of_a_condition_that_constants_decide) {
  expect_turns({.goes = Goes::while_small, .trips = Tensor()}, 4);                    // 3, 5, 7, 9
  expect_turns({.goes = Goes::while_small, .trips = Tensor::scalar<int64_t>(3)}, 3);  // the trip count comes first
  expect_turns({.goes = Goes::while_small, .trips = Tensor::of<int64_t>({1}, {100})},
               4);  // in the shape that exporters write too
}

TEST(UnrollLoop, stays_where_the_run_decides) {
  const auto said = [](const Form& f) { return verdict(around(f), unroll_loop, "loop"); };
  EXPECT_EQ(said({.computed_trips = true}), "not_constant by loop");
  EXPECT_EQ(said({.goes = Goes::by_its_sum}), "not_constant by loop");
  EXPECT_EQ(said({.goes = Goes::while_small, .computed_start = true}), "not_constant by loop");
}

TEST(UnrollLoop, stays_where_turns_are_many_or_none) {
  const auto said = [](int64_t trips) { return verdict(around({.trips = Tensor::scalar<int64_t>(trips)}), unroll_loop, "loop"); };
  EXPECT_EQ(said(512), "matched");
  EXPECT_EQ(said(513), "too_large by loop");
  EXPECT_EQ(said(0), "wrong_shape by loop");
}

TEST(UnrollLoop, stays_where_a_plan_runs_bodies_as_they_are) {
  Graph g = around({}).g;
  run(g);
  EXPECT_EQ(count(g, "Loop"), 1u);
}

}  // namespace
}  // namespace smelt::fuse
