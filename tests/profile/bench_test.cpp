// What a comparison says of its sides.
#include "profile/bench.h"

#include <gtest/gtest.h>

namespace smelt::profile {
namespace {

TEST(Bench, memory_of_a_plan_counts_where_it_lies) {
  Side host, gpu;
  host.memory_of_plan({.arena = 30, .weights = 4}, false);
  gpu.memory_of_plan({.arena = 30, .weights = 4, .on_host = 5}, true);
  EXPECT_EQ(host.host_bytes, 34);
  EXPECT_EQ(host.device_bytes, 0);
  EXPECT_EQ(gpu.host_bytes, 5);
  EXPECT_EQ(gpu.device_bytes, 34);
}

}  // namespace
}  // namespace smelt::profile
