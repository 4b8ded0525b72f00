// What another plan would take, from a profile and what its kernels took when they were tuned.
#include "profile/foresee.h"

#include <gtest/gtest.h>

namespace smelt::profile {
namespace {

StepInfo step(const char* problem, const char* tactic, double tuned_us = 0, int64_t bytes = 0) {
  StepInfo s;
  s.name = s.op = "k", s.problem = problem, s.tactic = tactic, s.measured_us = tuned_us, s.bytes = bytes;
  return s;
}

StepRow row(StepInfo s, double us) {
  StepRow r;
  r.step = std::move(s), r.us.median = us;
  return r;
}

Profile profile_of(std::vector<StepRow> steps, double gaps_us = 0) {
  Profile p;
  p.roof.bytes_per_s = 1e9, p.roof.launch_us = 1;  // 1000 bytes a microsecond
  for (StepRow& r : steps) p.steps_us += r.us.median, p.steps.push_back(std::move(r));
  p.gaps_us = gaps_us, p.latency_us.median = p.steps_us + gaps_us;
  return p;
}

TEST(Foresee, a_step_that_runs_already_takes_what_it_takes) {
  const Profile p = profile_of({row(step("a", "x", 50), 60), row(step("b", "x", 10), 20)});
  const Foreseen f = foresee(p, std::vector{step("a", "x", 50)});
  EXPECT_NEAR(f.run_us, 60, 1e-9);
  EXPECT_EQ(f.steps, 1);
  EXPECT_EQ(f.seen, 1);
}

TEST(Foresee, a_tuned_step_takes_as_much_longer_as_others_of_its_tactic) {
  // Tactic x takes 1.2 times what it took when it was tuned, y as long, all 1.11 times.
  const Profile p = profile_of({row(step("a", "x", 50), 60), row(step("b", "y", 40), 40)});
  EXPECT_NEAR(foresee(p, std::vector{step("c", "x", 10)}).run_us, 11.84, 0.01);
  EXPECT_NEAR(foresee(p, std::vector{step("c", "y", 10)}).run_us, 10.24, 0.01);
  EXPECT_EQ(foresee(p, std::vector{step("c", "y", 10)}).tuned, 1);
  EXPECT_NEAR(foresee(p, std::vector{step("c", "new", 9)}).run_us, 10, 1e-9);
}

TEST(Foresee, what_little_is_known_of_a_tactic_does_not_decide_alone) {
  const Profile p = profile_of({row(step("a", "x", 1000), 1000), row(step("b", "y", 1), 3)});
  EXPECT_LT(foresee(p, std::vector{step("c", "y", 10)}).run_us, 11);
}

TEST(Foresee, a_kernel_that_was_tuned_beside_the_one_that_runs_is_as_much_faster_in_a_run) {
  const Profile p = profile_of({row(step("a", "x"), 30), row(step("b", "y", 40), 80)});
  StepInfo faster = step("a", "y", 20);
  faster.others = {{"z", "", "no", "", 10}, {"x", "", "slower", "", 25}};
  EXPECT_NEAR(foresee(p, std::vector{faster}).run_us, 24, 1e-9);
  faster.others[1].us = 0;  // estimated, not measured
  EXPECT_NEAR(foresee(p, std::vector{faster}).run_us, 40, 1e-9) << "as much longer as y takes elsewhere";
}

TEST(Foresee, a_step_that_nobody_measured_is_as_far_from_its_roof_as_others) {
  // Its roof is 1 us to start and 9 to move: twice that here.
  const Profile p = profile_of({row(step("a", "x", 0, 9000), 20)});
  const Foreseen f = foresee(p, std::vector{step("b", "x", 0, 4000)});
  EXPECT_NEAR(f.run_us, 10, 1e-9);
  EXPECT_EQ(f.seen + f.tuned, 0);
}

TEST(Foresee, kernels_that_begin_early_win_what_the_build_measured) {
  const Profile p = profile_of({row(step("a", "x"), 10), row(step("b", "x"), 10)}, 4);
  EXPECT_NEAR(foresee(p, std::vector{step("a", "x"), step("b", "x")}, 0.9).run_us, 0.9 * 24, 1e-9);
}

TEST(Foresee, what_others_take_of_a_run_they_take_of_the_other_plans_too) {
  Profile p = profile_of({row(step("a", "x"), 10), row(step("b", "x"), 10)});
  p.latency_us.median = 50, p.others.cost_us = 30;
  EXPECT_NEAR(foresee(p, std::vector{step("a", "x")}).run_us, 40, 1e-9);
}

TEST(Foresee, is_sure_where_most_steps_run_here_or_were_timed_beside_those_that_do) {
  const Profile p = profile_of({row(step("a", "x"), 30), row(step("b", "x"), 10)});
  StepInfo faster = step("a", "y", 20);
  faster.others = {{"x", "", "slower", "", 25}};
  EXPECT_TRUE(foresee(p, std::vector{faster, step("b", "x")}).sure());
  faster.others.clear();
  EXPECT_FALSE(foresee(p, std::vector{faster, step("b", "x")}).sure()) << "it was tuned, and nothing beside it runs here";
}

TEST(Foresee, fewer_steps_have_fewer_gaps) {
  const Profile p = profile_of({row(step("a", "x"), 10), row(step("b", "x"), 10)}, 4);
  EXPECT_NEAR(foresee(p, std::vector{step("a", "x")}).run_us, 12, 1e-9);
}

TEST(Foresee, of_a_run_that_is_shorter_than_its_profiled_steps_is_scaled_to_it) {
  Profile p = profile_of({row(step("a", "x"), 10), row(step("b", "x"), 10)});
  p.latency_us.median = 18;
  EXPECT_NEAR(foresee(p, std::vector{step("a", "x")}).run_us, 9, 1e-9);
}

}  // namespace
}  // namespace smelt::profile
