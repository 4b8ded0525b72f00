// Shapes that an Execution meets in runs: what it keeps of them, and that results are right whatever was met before.
#include <gmock/gmock.h>

#include <cstdlib>
#include <functional>

#include "run/execution.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

/// An image of symbolic extents through a convolution, a normalisation by hand and a product over its pixels.
Graph image() {
  Builder b;
  const Dim h("h"), w("w");
  const ValueId x = b.input("x", SymShape{Dim(1), Dim(8), h, w});
  const ValueId y = b.node("conv", "Conv", {x, b.weights("k", {16, 8, 3, 3})}, SymShape{Dim(1), Dim(16), h, w}, DType::f32,
                           {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  const ValueId r = b.node("relu", "Relu", {y}, SymShape{Dim(1), Dim(16), h, w});
  b.output(b.node("mean", "GlobalAveragePool", {r}, SymShape{Dim(1), Dim(16), Dim(1), Dim(1)}));
  return std::move(b.g);
}

Shape nth_shape(int64_t i) { return {1, 8, 3 + i % 20, 5 + i / 20}; }

int64_t resident_bytes() {
  FILE* file = std::fopen("/proc/self/statm", "r");
  long total = 0, resident = 0;
  const int read = std::fscanf(file, "%ld %ld", &total, &resident);
  std::fclose(file);
  return read == 2 ? int64_t{resident} * 4096 : 0;
}

TEST(NewShapes, five_hundred_of_them_are_right_and_memory_stays_bounded) {
  Options options = quick();
  options.kept_shapes = 20;
  const auto plan = Plan::build(image(), options), plain = Plan::build(image(), unfused());
  const auto execution = plan->execution(), expected = plain->execution();
  int64_t after_hundred = 0;
  for (int64_t i = 0; i < 500; ++i) {
    const std::vector<Tensor> inputs{random_tensor(nth_shape(i), static_cast<unsigned>(i))};
    execution->bind(inputs);
    execution->run();
    if (i == 100) after_hundred = resident_bytes();
    if (i % 10 != 0) continue;
    expected->bind(inputs);
    expected->run();
    expect_same(execution->outputs()[0], expected->outputs()[0], 1e-5);
  }
  EXPECT_LT(resident_bytes() - after_hundred, int64_t{64} << 20);
}

/// Whether binding the shape again finds its plan: the steps are described anew, the kernels' problems are the same; what tells is
/// the time of planning, which the build's stages sum.
double planning_s(const Plan& plan) {
  double sum = 0;
  for (const BuildStage& s : plan.build_info().stages) sum += s.name == "recording" ? 0 : s.seconds;
  return sum;
}

TEST(NewShapes, are_kept_up_to_the_number_that_the_options_say) {
  Options options = quick();
  options.kept_shapes = 3;
  const auto plan = Plan::build(image(), options);
  const auto execution = plan->execution();
  const auto plans_for = [&](int64_t i) {
    const double before = planning_s(*plan);
    execution->bind(std::vector{random_tensor(nth_shape(i), 1)});
    return planning_s(*plan) > before;
  };
  for (int64_t i : {0, 1, 2}) EXPECT_TRUE(plans_for(i));
  for (int64_t i : {0, 1, 2}) EXPECT_FALSE(plans_for(i));
  EXPECT_TRUE(plans_for(3));
  EXPECT_FALSE(plans_for(1));
  EXPECT_TRUE(plans_for(0)) << "bound least recently";
}

TEST(NewShapes, are_kept_up_to_the_bytes_that_the_options_say) {
  Options options = quick();
  options.kept_bytes = 1;
  const auto plan = Plan::build(image(), options);
  const auto execution = plan->execution();
  for (int64_t i : {0, 1, 0}) {
    const double before = planning_s(*plan);
    execution->bind(std::vector{random_tensor(nth_shape(i), 1)});
    EXPECT_GT(planning_s(*plan), before) << "one is kept whatever it holds";
    execution->bind(std::vector{random_tensor(nth_shape(i), 2)});
    execution->run();
  }
}

using testing::HasSubstr;
using testing::Not;

/// What f() logs at the level that users ask for with SMELT_LOG=info, which a process reads once: in one of its own, that runs the
/// test from its beginning.
void expect_logged(const std::function<void()>& f, const testing::Matcher<const std::string&>& expected) {
  const std::string style = GTEST_FLAG_GET(death_test_style);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("SMELT_LOG", "info", 1);
  EXPECT_EXIT(
      {
        f();
        _exit(0);
      },
      testing::ExitedWithCode(0), expected);
  unsetenv("SMELT_LOG");
  GTEST_FLAG_SET(death_test_style, style);
}

constexpr const char* hint = "planning a shape that was not met before took";

/// So many times.
MATCHER_P(SaysTheHint, times, "") {
  int found = 0;
  for (size_t at = arg.find(hint); at != std::string::npos; at = arg.find(hint, at + 1)) ++found;
  return found == times;
}

/// relu(x · w + b), of any number of rows in any number of batches.
Graph rows_times_matrix() {
  Builder b;
  const SymShape wide{Dim("batch"), Dim("n"), Dim(256)};
  const ValueId x = b.input("x", wide);
  const ValueId y = b.node("product", "MatMul", {x, b.weights("w", {256, 256})}, wide);
  b.output(b.node("relu", "Relu", {b.node("biased", "Add", {y, b.weights("b", {256})}, wide)}, wide));
  return std::move(b.g);
}

TEST(NewShapes, find_what_all_extents_share_in_a_session_that_has_not_run) {
  const Graph g = rows_times_matrix();
  const auto plan = Plan::build(clone(g), rewriting());
  EXPECT_EQ(plan->build_info().packed, 0) << "a plan by itself may be written to a file, and guesses nothing";
  Session session(plan);
  const int64_t packed = plan->build_info().packed;
  EXPECT_GT(packed, 0);
  const Tensor x = random_tensor({1, 31, 256}, 1);
  expect_same(session.run_in_order(std::vector{x})[0], ops::evaluate(g, std::vector{x})[0], 1e-5);
  EXPECT_EQ(plan->build_info().packed, packed);
}

TEST(NewShapes, that_fit_no_guess_run_all_the_same) {
  Builder b;
  const ValueId x = b.input("x", {Dim("n"), Dim("m")});
  b.output(b.node("rows", "Reshape", {x, b.ints({7, 11})}, to_sym({7, 11})));
  const Graph g = std::move(b.g);
  Session session(Plan::build(clone(g), rewriting()));
  const Tensor in = random_tensor({11, 7}, 1);
  expect_same(session.run_in_order(std::vector{in})[0], ops::evaluate(g, std::vector{in})[0], 0);
}

TEST(NewShapes, that_cost_more_than_ten_runs_are_a_hint_to_prepare_ranges_said_once) {
  expect_logged(
      [] {
        const auto plan = Plan::build(image(), quick());
        const auto execution = plan->execution();
        for (int64_t i = 0; i < 5; ++i) {
          execution->bind(std::vector{random_tensor(nth_shape(i), 1)});
          for (int run = 0; run < 3; ++run) execution->run();
        }
      },
      testing::AllOf(SaysTheHint(1), HasSubstr("Ranges in --shapes")));
}

TEST(NewShapes, are_no_hint_below_ten_runs_nor_where_a_build_prepared_them) {
  expect_logged(
      [] {
        const auto plan = Plan::build(image(), quick());
        static_cast<const PlanImpl&>(*plan).note_cost(0.0099, 0.001);
      },
      Not(HasSubstr(hint)));
  expect_logged(
      [] {
        const auto plan = Plan::build(image(), quick());
        static_cast<const PlanImpl&>(*plan).note_cost(0.0101, 0.001);
      },
      HasSubstr("took 10.1 ms, 10 times its run"));
  expect_logged(
      [] {
        Options options = quick();
        options.profiles.push_back({{"x", {{1, 8, 3, 5}, {1, 8, 3, 5}, {1, 8, 3, 5}}}});
        const auto plan = Plan::build(image(), options);
        const auto execution = plan->execution();
        execution->bind(std::vector{random_tensor({1, 8, 3, 5}, 1)});
        for (int run = 0; run < 3; ++run) execution->run();
      },
      Not(HasSubstr(hint)));
}

}  // namespace
}  // namespace smelt::run
