// What the table of steps says of their sum.
#include <gmock/gmock.h>

#include "report/report.h"

namespace smelt::report {
namespace {

using testing::HasSubstr;
using testing::Not;

profile::Profile profile_of(double run_us, double step_us, double clock_us) {
  profile::Profile p;
  p.steps.resize(2);
  for (profile::StepRow& r : p.steps) r.us.median = step_us;
  p.steps_us = 2 * step_us;
  p.gaps_us = 0.5;
  p.clock_us = clock_us;
  p.latency_us.median = run_us, p.latency_us.count = 20;
  return p;
}

TEST(StepSum, is_told_beside_a_run_in_time_and_as_a_part_of_it) {
  const std::string note = step_table(profile_of(100, 45, 0.03)).note;
  EXPECT_THAT(note,
              HasSubstr("2 steps take 90.0 µs, gaps between them 500 ns, together 9.50 µs (9.5%) less than one run: 100 µs"));
  EXPECT_THAT(note, Not(HasSubstr("clock")));
}

TEST(StepSum, of_steps_as_short_as_readings_of_the_clock_says_so) {
  const std::string note = step_table(profile_of(2, 1, 0.03)).note;
  EXPECT_THAT(note, HasSubstr("together 500 ns (25.0%) more than one run: 2.00 µs"));
  EXPECT_THAT(note,
              HasSubstr("Steps are timed one by one; the 30 ns that reading the clock takes each time are not among theirs"));
}

}  // namespace
}  // namespace smelt::report
