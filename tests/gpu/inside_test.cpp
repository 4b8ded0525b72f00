// What a profile on GPU 0 says of the steps inside of Loop and If.
#include "plans.h"
#include "profile/profile.h"
#include "support/control_graphs.h"

namespace smelt::run {
namespace {

TEST(GpuProfile, sees_the_steps_inside_of_loop_and_if) {
  constexpr int64_t width = 1024, trips = 6;
  const auto plan = Plan::build(loop_and_if(width), on_gpu());
  const auto execution = plan->execution();
  const std::vector in{Tensor::scalar(trips), random_tensor({width, width}, 2)};
  execution->bind(in);
  const profile::Profile p = profile::profile(*plan, *execution, {.iterations = 5}, {});
  std::map<std::string, double> steps, inside;
  for (const profile::StepRow& r : p.steps) steps[r.step.name] += r.us.median;
  std::vector<std::string> seen;
  for (const profile::InnerRow& r : p.inside) {
    ASSERT_EQ(r.path.size(), 1u);
    inside[r.path[0]] += r.us;
    if (r.us > 0) seen.push_back(r.path[0] + " / " + r.row.step.name);
    const bool in_loop = r.path[0].starts_with("loop");
    EXPECT_EQ(r.calls, in_loop ? trips : 1) << r.path[0] << " / " << r.row.step.name;
    fmt::print("{:20} {:10} {} calls of {:.1f} µs\n", r.path[0], r.row.step.name, r.calls, r.row.us.median);
    if (r.row.step.name != "product") continue;
    // 2 GFLOP: an H100 takes 40 µs at its best, and a slow kernel on a slow GPU some milliseconds.
    EXPECT_GT(r.row.us.median, 10);
    EXPECT_LT(r.row.us.median, 20000);
    EXPECT_GT(r.us, inside[r.path[0]] / 2) << "the product takes most of the body's time";
  }
  EXPECT_TRUE(std::ranges::find(seen, "loop: body / product") != seen.end());
  EXPECT_TRUE(std::ranges::find(seen, "loop: body / bounded") != seen.end());
  const bool then = inside.contains("if: then_branch");
  EXPECT_NE(then, inside.contains("if: else_branch")) << "one of them ran";
  EXPECT_LE(inside["loop: body"], steps["loop"] * 1.001);
  EXPECT_LE(inside[then ? "if: then_branch" : "if: else_branch"], steps["if"] * 1.001);
  expect_outputs(execution->outputs(), ops::evaluate(loop_and_if(width), in), 1e-3);
}

}  // namespace
}  // namespace smelt::run
