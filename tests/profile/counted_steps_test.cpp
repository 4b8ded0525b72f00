// What counters add to the limits of steps.
#include "profile/counted_steps.h"

#include <gtest/gtest.h>

namespace smelt::profile {
namespace {

TEST(CountedSteps, belong_to_the_step_in_which_a_sample_lies) {
  const std::vector<StepTime> times{{0, 1000}, {1000, 3000}};
  std::vector<CountedStep> steps(2);
  share_out({{{10'100, {0, 0, 0}},
              {10'900, {100, 200, 3}},
              {11'500, {300, 250, 13}},
              {14'000, {900, 900, 90}}},  // the last: behind the run
             {{11'000, {50, 50, 0}}, {12'999, {60, 90, 1}}}},
            times, 10'000, steps);
  EXPECT_EQ(steps[0].cycles, 100);
  EXPECT_EQ(steps[0].instructions, 200);
  EXPECT_EQ(steps[1].cycles, 210);
  EXPECT_EQ(steps[1].instructions, 90);
  EXPECT_EQ(steps[1].misses, 11);
}

StepRow row(Limiter limiter) {
  StepRow r;
  r.limiter = limiter, r.because = "by the model";
  return r;
}

TEST(CountedSteps, tell_why_a_step_is_near_neither_roof) {
  const Roof roof{.bytes_per_s = 10e9};
  StepRow moves = row(Limiter::latency), computes = moves, waits = moves;
  refine(moves, {1e8, 5e7, 1e5}, 1000, roof);  // 6.4 GB/s
  EXPECT_EQ(moves.limiter, Limiter::memory);
  EXPECT_NEAR(moves.missed_bytes_per_s, 6.4e9, 1);
  refine(computes, {1e8, 2.5e8, 100}, 1000, roof);
  EXPECT_EQ(computes.limiter, Limiter::compute);
  EXPECT_NEAR(computes.instructions_per_cycle, 2.5, 1e-9);
  refine(waits, {1e8, 3e7, 100}, 1000, roof);
  EXPECT_EQ(waits.limiter, Limiter::latency);
  EXPECT_EQ(waits.because, "by the model; counted: 0.3 instructions a cycle, 0.0064 GB/s of misses");
}

TEST(CountedSteps, leave_what_the_model_is_sure_of_and_what_was_hardly_counted) {
  const Roof roof{.bytes_per_s = 10e9};
  StepRow sure = row(Limiter::compute), hardly = row(Limiter::latency);
  refine(sure, {1e8, 2e7, 1e5}, 1000, roof);
  EXPECT_EQ(sure.limiter, Limiter::compute);
  refine(hardly, {1e5, 3e5, 1e5}, 1000, roof);
  EXPECT_EQ(hardly.limiter, Limiter::latency);
  EXPECT_EQ(hardly.because, "by the model");
}

}  // namespace
}  // namespace smelt::profile
