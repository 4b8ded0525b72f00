// What is seen of the GPU's clocks, on states that are made up.
#include "tune/clocks.h"

#include <gmock/gmock.h>

#include "smelt/error.h"

namespace smelt::tune {
namespace {

using device::cuda::GpuState;

GpuState at(int mhz, std::vector<std::string> slowed_by = {}) {
  GpuState s;
  s.clock_mhz = mhz;
  s.max_clock_mhz = 1980;
  s.slowed_by = std::move(slowed_by);
  return s;
}

/// What a watch sees that may look at any time.
ClocksSeen seen(const std::vector<GpuState>& states) {
  size_t next = 0;
  ClockWatch watch([&] { return states.at(next++); }, ClockWatch::Duration{});
  for (size_t i = 0; i < states.size(); ++i) watch.look();
  return watch.seen();
}

TEST(ClockWatch, sees_the_range_and_what_held_them_down) {
  const ClocksSeen s = seen({at(1980), at(1410, {"power cap"}), at(1755, {"power cap", "heat"})});
  EXPECT_EQ(s.lowest_mhz, 1410);
  EXPECT_EQ(s.highest_mhz, 1980);
  EXPECT_EQ(s.most_mhz, 1980);
  EXPECT_THAT(s.slowed_by, testing::ElementsAre("power cap", "heat"));
}

TEST(ClockWatch, passes_over_a_gpu_with_nothing_to_do) {
  GpuState idle = at(345);
  idle.idle = true;
  EXPECT_EQ(seen({idle, GpuState{}}).lowest_mhz, 0);
  EXPECT_EQ(seen({idle, at(1980), idle}).lowest_mhz, 1980);
}

TEST(ClockWatch, asks_once_where_nobody_knows) {
  int asked = 0;
  ClockWatch watch(
      [&]() -> GpuState {
        ++asked;
        throw Error("no NVML");
      },
      ClockWatch::Duration{});
  for (int i = 0; i < 3; ++i) watch.look();
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(watch.seen().highest_mhz, 0);
}

TEST(ClockWatch, leaves_a_pause_between_its_looks) {
  int asked = 0;
  ClockWatch watch([&] { return ++asked, at(1980); }, std::chrono::hours(1));
  for (int i = 0; i < 3; ++i) watch.look();
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace smelt::tune
