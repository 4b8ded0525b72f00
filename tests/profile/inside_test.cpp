// What a profile says of the steps inside of If, Loop and Scan, and of the steps around them.
#include <gtest/gtest.h>

#include "profile/advice.h"
#include "profile/limiter.h"

namespace smelt::profile {
namespace {

TEST(StepsInsideOfABody, take_no_longer_together_than_the_step_around_them) {
  std::vector<StepRow> steps(2);
  steps[0].step.name = "loop", steps[0].us.median = 40;
  steps[1].step.name = "other: loop", steps[1].us.median = 40;
  const auto row = [](std::vector<std::string> path, double us) {
    InnerRow r{.path = std::move(path), .calls = 2, .us = us};
    r.row.us.median = us / 2;
    return r;
  };
  std::vector<InnerRow> rows = {row({"loop: body"}, 60), row({"loop: body"}, 20), row({"loop: body", "if: then_branch"}, 10),
                                row({"other: loop: body"}, 30), row({"unknown: body"}, 90)};
  fit_into(rows, steps);
  const std::vector<double> expected = {30, 10, 5, 30, 90};
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_DOUBLE_EQ(rows[i].us, expected[i]) << i;
    EXPECT_DOUBLE_EQ(rows[i].row.us.median, expected[i] / 2) << i;
  }
}

/// A loop of 4 trips: a product of 10 µs at half of the arithmetic's roof, and an If of 2 µs whose branch is limited by memory.
std::vector<InnerRow> inside_of_a_loop() {
  const auto row = [](std::vector<std::string> path, const char* name, double calls, double us, Limiter limiter, double compute,
                      double memory) {
    InnerRow r{.path = std::move(path), .calls = calls, .us = us};
    r.row.step.name = name, r.row.step.flops = 100, r.row.step.bytes = 10;
    r.row.compute_us = compute, r.row.memory_us = memory, r.row.limiter = limiter, r.row.because = "so";
    return r;
  };
  return {row({"loop: body"}, "product", 4, 40, Limiter::compute, 5, 1),
          row({"loop: body", "if: then_branch"}, "sine", 2, 3, Limiter::memory, 0, 1),
          row({"loop: body"}, "if", 4, 8, Limiter::latency, 0, 0)};
}

TEST(StepsInsideOfABody, say_what_limits_the_step_around_them) {
  std::vector<InnerRow> inside = inside_of_a_loop();
  std::vector<StepRow> steps(2);
  steps[0].step.name = "loop", steps[0].us.median = 50, steps[0].limiter = Limiter::latency;
  steps[1].step.name = "other", steps[1].us.median = 50, steps[1].limiter = Limiter::launch;
  judge_by_inside(steps, inside);
  EXPECT_EQ(inside[2].row.limiter, Limiter::memory);
  EXPECT_DOUBLE_EQ(inside[2].row.memory_us, 0.5);
  EXPECT_EQ(steps[0].limiter, Limiter::compute);
  EXPECT_DOUBLE_EQ(steps[0].compute_us, 20);
  EXPECT_DOUBLE_EQ(steps[0].memory_us, 6);
  EXPECT_EQ(steps[0].step.flops, 600);
  EXPECT_DOUBLE_EQ(steps[0].roof_share, 0.4);
  EXPECT_DOUBLE_EQ(steps[0].at_stake_us, 30);
  EXPECT_EQ(steps[0].because, "inside of it, product takes 80%: so");
  EXPECT_EQ(steps[1].limiter, Limiter::launch) << "it has no body";
}

TEST(StepsInsideOfABody, follow_the_step_that_they_are_inside_of) {
  std::vector<std::string> names;
  for (const InnerRow& r : parents_first(inside_of_a_loop())) names.push_back(r.row.step.name);
  EXPECT_EQ(names, (std::vector<std::string>{"product", "if", "sine"}));
}

TEST(StepsInsideOfABody, are_what_advice_is_about) {
  Profile p;
  p.roof.bytes_per_s = 1e9, p.latency_us.median = 50;
  p.inside = inside_of_a_loop();
  p.steps.resize(1);
  p.steps[0].step.name = "loop", p.steps[0].step.tactic = "plan", p.steps[0].us.median = 50;
  judge_by_inside(p.steps, p.inside);
  const std::vector<Advice> all = advise(p, {});
  const auto at = std::ranges::find_if(all, [](const Advice& a) { return a.what.starts_with("do less arithmetic"); });
  ASSERT_NE(at, all.end());
  EXPECT_EQ(at->steps, std::vector<std::string>{"product"}) << "not the loop around it";
  EXPECT_NEAR(at->us, 40 - 4 * 5 / 0.8, 1e-9);
}

}  // namespace
}  // namespace smelt::profile
