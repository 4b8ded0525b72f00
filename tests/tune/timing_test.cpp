#include "tune/timing.h"

#include <gtest/gtest.h>

#include <chrono>

#include "smelt/error.h"

namespace smelt::tune {
namespace {

Timing around(double median, double half) {
  return {"t", "", median - half, median - half, median, median + half, median + half, 9};
}

void spin(double us) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() < us) {
  }
}

TEST(Timing, summarises_quantiles_of_unsorted_samples) {
  const Timing t = summarize("a", "b", {5, 1, 3, 2, 4});
  EXPECT_EQ(t.min, 1);
  EXPECT_EQ(t.q1, 2);
  EXPECT_EQ(t.median, 3);
  EXPECT_EQ(t.q3, 4);
  EXPECT_DOUBLE_EQ(t.p90, 4.6);
  EXPECT_EQ(t.samples, 5);
}

TEST(Timing, refuses_to_summarise_nothing) { EXPECT_THROW(summarize("a", "", {}), Error); }

TEST(Winner, is_the_fastest_when_intervals_are_apart) {
  EXPECT_EQ(winner(std::vector{around(10, 1), around(5, 1), around(20, 1)}), 1u);
}

TEST(Winner, is_one_that_runs) {
  EXPECT_EQ(winner(std::vector<Timing>{{"t", ""}, around(10, 1)}), 1u);
  EXPECT_THROW(winner(std::vector<Timing>{{"t", ""}}), Error);
  EXPECT_THROW(winner({}), Error);
}

TEST(Winner, is_the_first_in_order_among_those_within_noise) {
  EXPECT_EQ(winner(std::vector{around(20, 1), around(10.5, 1), around(10, 1)}), 1u);
  EXPECT_EQ(winner(std::vector{around(10.5, 1), around(10, 1), around(10.2, 1)}), 0u);
}

TEST(Winner, is_not_drawn_in_by_a_chain_of_overlaps) {
  // The first meets the second and the second the third, but the first does not meet the third.
  EXPECT_EQ(winner(std::vector{around(13, 1), around(11.5, 1), around(10, 1)}), 1u);
}

TEST(Measure, tells_a_slow_run_from_a_fast_one) {
  const std::vector<std::function<void()>> runs{[] { spin(300); }, [] { spin(100); }};
  const auto samples = measure(runs, {.repetitions = 9, .budget_us = 20'000, .hopeless = 8});
  const Timing slow = summarize("slow", "", samples[0]), fast = summarize("fast", "", samples[1]);
  EXPECT_GT(slow.median, 2 * fast.median);
  EXPECT_EQ(winner(std::vector{slow, fast}), 1u);
}

TEST(Measure, drops_a_hopeless_candidate_after_its_warm_up) {
  int runs_of_slow = 0;
  const std::vector<std::function<void()>> runs{[] { spin(50); }, [&] { ++runs_of_slow, spin(5000); }};
  const auto samples = measure(runs, {.repetitions = 30, .budget_us = 1e6, .hopeless = 8});
  EXPECT_LE(runs_of_slow, 2);
  EXPECT_EQ(samples[1].size(), 1u);
  EXPECT_GT(samples[0].size(), 3u);
}

}  // namespace
}  // namespace smelt::tune
