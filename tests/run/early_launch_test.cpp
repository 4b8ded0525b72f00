// Whether recordings let kernels begin early: chosen by measuring both ways, by --tactics or by a plan's file.
#include "run/early_launch.h"

#include "base/error.h"
#include "made_up_device.h"

namespace smelt::run {
namespace {

using By = plan::EarlyLaunch::By;

Options tuned(const std::string& tactics = "") {
  Options o = quick();
  o.tuning_level = 2;
  o.use_cache = false;
  o.tactics = tactics;
  return o;
}

/// A device whose launches of a recording take so many microseconds.
struct MadeEarly : Made {
  MadeEarly(double late_us, double early_us, const Options& options = tuned()) : Made(copying_graph(), options) {
    device->early_kernels = 1;
    device->late_ns = static_cast<int64_t>(late_us * 1e3), device->early_ns = static_cast<int64_t>(early_us * 1e3);
  }
  plan::EarlyLaunch choose(const std::optional<plan::EarlyLaunch>& carried = {}) const {
    plan->choose_early_launch(carried);
    return plan->early_launch();
  }
};

TEST(EarlyLaunch, is_on_where_a_run_is_faster_so) {
  for (const auto& [late, early, on] : {std::tuple{1000.0, 980.0, true}, {1000.0, 999.0, false}, {20.0, 21.0, false}}) {
    const MadeEarly m(late, early);
    const plan::EarlyLaunch e = m.choose();
    EXPECT_EQ(e.on, on) << early;
    EXPECT_EQ(e.by, By::measurement);
    EXPECT_NEAR(e.late_us, late, 0.01);
    EXPECT_NEAR(e.early_us, early, 0.01);
    // What was planned serves the first Execution, which records it as was chosen.
    const int before = m.device->early_recordings;
    const auto execution = m.plan->execution();
    const Tensor x = m.place(random_tensor({4, 6}, 1));
    execution->bind(std::vector{x});
    execution->run();
    EXPECT_EQ(m.device->early_recordings - before, on ? 1 : 0);
    expect_same(execution->outputs()[0], ops::evaluate(copying_graph(), std::vector{x})[0]);
    EXPECT_EQ(early_launch_of(*m.plan).on, on);
  }
}

TEST(EarlyLaunch, is_what_tactics_say_and_nothing_is_measured_then) {
  for (const bool on : {false, true}) {
    const MadeEarly m(1000, 500, tuned(on ? "+early_launch" : "-early_launch"));
    const plan::EarlyLaunch e = m.choose(plan::EarlyLaunch{.on = !on, .by = By::plan});
    EXPECT_EQ(e.on, on);
    EXPECT_EQ(e.by, By::tactics);
    EXPECT_EQ(m.device->launches, 0);
  }
}

TEST(EarlyLaunch, of_the_same_steps_is_what_the_cache_keeps) {
  const MadeEarly m(1000, 980);
  EXPECT_EQ(m.choose().by, By::measurement);
  const int launches = m.device->launches;
  m.device->early_ns = 2'000'000;
  const plan::EarlyLaunch e = m.choose();
  EXPECT_TRUE(e.on);
  EXPECT_EQ(e.by, By::cache);
  EXPECT_NEAR(e.early_us, 980, 0.01);
  EXPECT_EQ(m.device->launches, launches);
}

TEST(EarlyLaunch, is_what_a_plan_carries_and_nothing_is_measured_then) {
  const MadeEarly m(1000, 2000);
  std::map<std::string, std::string> metadata;
  plan::write_early_launch({true, By::measurement, 1000, 980.5}, metadata);
  const auto carried = plan::read_early_launch(metadata);
  EXPECT_TRUE(metadata.empty());
  const plan::EarlyLaunch e = m.choose(carried);
  EXPECT_TRUE(e.on);
  EXPECT_EQ(e.by, By::plan);
  EXPECT_EQ(e.early_us, 980.5);
  EXPECT_EQ(m.device->launches, 0);
}

TEST(EarlyLaunch, is_off_where_it_cannot_be_measured) {
  const MadeEarly untuned(1000, 500, quick());
  EXPECT_EQ(untuned.choose().by, By::nothing);
  EXPECT_EQ(untuned.plan->early_launch().why_not, "nothing is measured at tuning level 0");
  const MadeEarly without(1000, 500);
  without.device->early_kernels = 0;
  EXPECT_EQ(without.choose().by, By::nothing) << "a device that has none";
  const MadeEarly full(1000, 500);
  full.device->allocations_left = 1;
  const plan::EarlyLaunch e = full.choose();
  EXPECT_EQ(e.by, By::nothing) << "no memory";
  EXPECT_EQ(e.why_not, "it could not be measured");
  EXPECT_FALSE(e.on);
  full.device->allocations_left = -1;
  full.plan->execution()->bind(std::vector{full.place(random_tensor({4, 6}, 1))});
}

TEST(EarlyLaunch, of_a_damaged_plan_is_none) {
  for (const char* text : {"", "on", "perhaps 1 2", "on 1 x", "off x"}) {
    std::map<std::string, std::string> metadata{{"smelt.plan.early_launch", text}};
    EXPECT_FALSE(plan::read_early_launch(metadata)) << text;
    EXPECT_TRUE(metadata.empty());
  }
}

}  // namespace
}  // namespace smelt::run
