// What others' use of a GPU costs the runs that are profiled.
#include "profile/gpu_others.h"

#include <gtest/gtest.h>

namespace smelt::profile {
namespace {

TEST(OtherGpuWork, costs_what_runs_take_beyond_their_steps_and_gaps) {
  const std::vector<double> us{100, 150, 160, 170, 104};
  const OtherWork o = other_gpu_work({.busy_percent = 40, .processes = {{77, 38, 1 << 30}}}, us, 100);
  EXPECT_EQ(o.runs, 5);
  EXPECT_EQ(o.disturbed, 3);
  EXPECT_NEAR(o.cost_us, 50, 1e-9);
  EXPECT_FALSE(o.cost_measured);
  ASSERT_EQ(o.gpu.processes.size(), 1u);
}

TEST(OtherGpuWork, is_none_where_the_gpu_was_left_alone) {
  const std::vector<double> us{100, 150};
  EXPECT_EQ(other_gpu_work({}, us, 90).disturbed, 0) << "its own runs differ";
  EXPECT_EQ(other_gpu_work({.busy_percent = 3}, {}, 90).cost_us, 0);
}

}  // namespace
}  // namespace smelt::profile
