// Whether a rebuild chooses the same, and what sameness costs: on a GPU that is made up.
#include <gtest/gtest.h>

#include <cmath>

#include "made_up_gpu.h"

namespace smelt::tune {
namespace {

struct Rebuilds {
  double otherwise = 0, lost = 0, apart = 0;  // of the problems; mean over the fastest kernels; the most of two builds' latencies
};

/// Two builds of each of so many models of 60 problems.
Rebuilds rebuild(GpuNoise noise, uint32_t models, size_t trials = 1500) {
  constexpr size_t problems = 60;
  Rebuilds r;
  for (uint32_t m = 1; m <= models; ++m) {
    const MadeUpGpu gpu(problems, noise, m);
    const MadeUpGpu::Built a = gpu.build(1000 * m, trials), b = gpu.build(1000 * m + 1, trials);
    double otherwise = 0;
    for (size_t p = 0; p < problems; ++p) otherwise += a.chosen[p] != b.chosen[p];
    r.otherwise += otherwise / problems / models;
    r.lost += (a.us / gpu.fastest_us() - 1) / models;
    r.apart = std::max(r.apart, std::abs(a.us / b.us - 1));
  }
  return r;
}

/// Whatever races alone measure: who is a finalist differs from build to build, and yet who is chosen does not.
TEST(Rebuilds, nine_of_ten_problems_choose_the_same_where_sessions_are_alike) {
  for (const double alone : {0.02, 0.05, 0.09}) {
    const Rebuilds r = rebuild({.alone = alone}, 10);
    EXPECT_LE(r.otherwise, 0.1) << alone;
    EXPECT_LE(r.lost, 0.01) << alone;
    EXPECT_LE(r.apart, 0.01) << alone;
  }
}

/// What a session adds to a kernel no trial within it takes off: 0.03 us are 1% of most problems here, the price of a place.
TEST(Rebuilds, sessions_that_differ_by_as_much_as_a_place_choose_the_same_for_most_problems) {
  const Rebuilds near = rebuild({.alone = 0.09, .session_us = 0.03}, 10);
  EXPECT_LE(near.otherwise, 0.13);
  EXPECT_LE(near.lost, 0.01);
  EXPECT_LE(near.apart, 0.01);
  const Rebuilds far = rebuild({.alone = 0.09, .session_us = 0.08}, 10);
  EXPECT_LE(far.otherwise, 0.3);
  EXPECT_LE(far.lost, 0.015);
  EXPECT_LE(far.apart, 0.015);
}

/// The order is that of the estimates; where they say little, it costs more.
TEST(Rebuilds, estimates_that_say_little_cost_little) {
  const Rebuilds r = rebuild({.alone = 0.05, .session_us = 0.03, .estimate = 0.4}, 10);
  EXPECT_LE(r.otherwise, 0.16);
  EXPECT_LE(r.lost, 0.015);
}

}  // namespace
}  // namespace smelt::tune
