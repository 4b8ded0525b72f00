#include <gtest/gtest.h>

#include <algorithm>

#include "profile/profile.h"
#include "support/builder.h"

namespace smelt::profile {
namespace {

TEST(ProfileMemory, the_most_is_what_some_step_holds_with_the_weights) {
  fuse::Builder b;
  const ValueId x = b.input("x", to_sym({4, 64}));
  const ValueId wide = b.node("wide", "MatMul", {x, b.weights("w", {64, 512})}, to_sym({4, 512}));
  const ValueId soft = b.node("soft", "Softmax", {wide}, to_sym({4, 512}), DType::f32, {{"axis", int64_t{-1}}});
  b.output(b.node("narrow", "MatMul", {soft, b.weights("v", {512, 8})}, to_sym({4, 8})));
  Options options;
  options.tuning_level = 0;
  options.use_cache = false;
  const auto plan = Plan::build(std::move(b.g), options);
  const auto execution = plan->execution();
  execution->bind(std::vector{Tensor::zeros(DType::f32, {4, 64})});
  const Profile p = profile(*plan, *execution, {.iterations = 1, .warmup = 0}, {});
  ASSERT_FALSE(p.steps.empty());
  int64_t most = 0;
  for (const StepRow& s : p.steps) {
    EXPECT_EQ(s.step.memory.bound, 4 * 4 * (64 + 8)) << s.step.name;
    most = std::max(most, p.footprint.weights + s.step.memory.total());
  }
  EXPECT_EQ(p.peak_bytes, most);
  EXPECT_GE(p.peak_bytes, p.footprint.weights + 4 * (4 * 512 + 4 * 72)) << "what the wide product makes";
  const auto at = std::ranges::find(p.steps, p.peak_step, [](const StepRow& s) { return s.step.name; });
  ASSERT_NE(at, p.steps.end());
  EXPECT_EQ(p.held(*at), most);
}

}  // namespace
}  // namespace smelt::profile
