// Times of the steps in bodies.
#include "run/inner_times.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "made_up_device.h"
#include "support/control_graphs.h"

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

// The made-up clock ticks once a step.
TEST(InnerTimes, of_a_device_are_those_of_each_step_of_the_bodies_that_ran) {
  for (const bool traces : {false, true}) {
    const Made made(loop_and_if(4));
    made.device->traces = traces;
    const auto execution = made.plan->execution();
    execution->bind(std::vector{Tensor::scalar(int64_t{3}), random_tensor({4, 4}, 2)});
    execution->run();
    const InnerTimes times;
    execution->run();
    std::map<std::string, InnerStep> found;
    for (const InnerStep& s : times.steps()) found[fmt::format("{}/{}", fmt::join(s.path, "/"), s.step.name)] = s;
    ASSERT_TRUE(found.contains("loop: body/product") && found.contains("loop: body/bounded")) << traces;
    EXPECT_EQ(found["loop: body/product"].calls, 3) << traces;
    EXPECT_EQ(found.contains("if: then_branch/doubled"), !found.contains("if: else_branch/positive")) << traces;
    if (traces) continue;
    EXPECT_EQ(found["loop: body/product"].ns, 3);
    EXPECT_EQ(found["loop: body/bounded"].ns, 3);
  }
}

}  // namespace
}  // namespace smelt::run
