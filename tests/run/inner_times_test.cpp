// Times of the steps in bodies.
#include "run/inner_times.h"

#include <gtest/gtest.h>

namespace smelt::run {
namespace {

TEST(InnerTimes, keep_steps_of_one_name_apart_and_add_up_the_calls_of_each) {
  InnerTimes times;
  const auto step = [] { return StepInfo{.name = "product"}; };
  for (int turn = 0; turn < 3; ++turn) {
    const InnerTimes::Inside inside("loop", "body");
    ASSERT_TRUE(times.is_inside());
    times.add(0, "product", 10, step);
    times.add(1, "product", 1, step);
  }
  const std::vector<InnerStep> steps = times.steps();
  ASSERT_EQ(steps.size(), 2u) << "parts of a fused node that run apart share its name";
  EXPECT_EQ(steps[0].calls, 3);
  EXPECT_EQ(steps[0].ns, 30);
  EXPECT_EQ(steps[1].ns, 3);
  EXPECT_EQ(steps[1].path, std::vector<std::string>{"loop: body"});
}

}  // namespace
}  // namespace smelt::run
