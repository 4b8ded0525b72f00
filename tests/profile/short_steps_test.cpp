// Steps that take less than what is around them when they are timed.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "profile/profile.h"
#include "support/builder.h"

namespace smelt::profile {
namespace {

/// Steps of made-up times, for which the caller waits a millisecond longer than they take.
class Waiting final : public Execution {
 public:
  Waiting(std::vector<StepInfo> steps, std::vector<StepTime> times) : steps_(std::move(steps)), times_(std::move(times)) {}
  void bind(std::span<const Tensor>, std::span<const Tensor>, std::span<const Cache>) override {}
  void run() override {}
  void cancel() override {}
  void enqueue(void*) override {}
  double run_timed(int) override { return static_cast<double>(times_.back().end_ns) * 1e-3; }
  void run_profiled(std::vector<StepTime>& times, std::vector<CopyTime>*) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    times = times_;
  }
  std::span<const Tensor> outputs() const override { return {}; }
  const std::vector<StepInfo>& steps() const override { return steps_; }
  MemoryInfo memory() const override { return {}; }
  bool on_gpu() const override { return false; }

 private:
  std::vector<StepInfo> steps_;
  std::vector<StepTime> times_;
};

TEST(ShortSteps, with_their_gaps_are_what_the_run_itself_says) {
  fuse::Builder b;
  const ValueId x = b.input("x", to_sym({4}));
  b.output(b.node("soft", "Softmax", {b.node("sum", "Add", {x, x}, to_sym({4}))}, to_sym({4})));
  Options options;
  options.tuning_level = 0;
  options.use_cache = false;
  const auto plan = Plan::build(std::move(b.g), options);
  Waiting execution({StepInfo{.name = "sum"}, StepInfo{.name = "soft"}}, {{2000, 5000}, {6000, 10000}});
  const Profile p = profile(*plan, execution, {.iterations = 5, .warmup = 0}, {});
  ASSERT_EQ(p.steps.size(), 2u);
  EXPECT_GT(p.clock_us, 0);
  ASSERT_LT(p.clock_us, 1);
  EXPECT_NEAR(p.steps[0].us.median, 3 - p.clock_us, 1e-6);
  EXPECT_NEAR(p.steps[1].us.median, 4 - p.clock_us, 1e-6);
  EXPECT_GT(p.gaps_us, 0);
  EXPECT_LE(p.gaps_us, 2 + 1) << "what the caller waits beside the run is no part of it";
}

}  // namespace
}  // namespace smelt::profile
