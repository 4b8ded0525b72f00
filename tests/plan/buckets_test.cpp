#include "plan/buckets.h"

#include <gmock/gmock.h>

#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

TEST(Buckets, sizes_of_one_are_measured_once) {
  Builder b;
  const ValueId x = b.input("x", SymShape{Dim("n"), Dim(64)});
  b.output(b.node("y", "MatMul", {x, b.weights("w", {64, 48})}, SymShape{Dim("n"), Dim(48)}));
  Options options = quick();
  options.tuning_level = 1;
  options.tune_new_shapes = true;
  const auto plan = Plan::build(std::move(b.g), options);
  const auto execution = plan->execution();
  const auto measured_by = [&](int64_t n) {
    execution->bind(std::vector{random_tensor({n, 64}, 1)});
    return plan->build_info().measured;
  };
  EXPECT_EQ(measured_by(33), 1);
  const StepInfo first = execution->steps()[0];
  EXPECT_GT(first.measured_us, 0);
  EXPECT_EQ(measured_by(63), 1);
  const StepInfo same = execution->steps()[0];
  EXPECT_NE(same.problem, first.problem);
  EXPECT_EQ(same.tactic + same.config, first.tactic + first.config);
  EXPECT_THAT(same.others,
              testing::Contains(testing::Field(&TacticNote::reason, testing::HasSubstr("sizes of the same bucket"))));
  EXPECT_EQ(measured_by(65), 2) << "beyond the next power of 2";
  EXPECT_EQ(measured_by(40), 3) << "rows of eights";
  EXPECT_EQ(measured_by(56), 3);
}

TEST(Buckets, keep_what_was_chosen_first) {
  BucketChoices choices;
  EXPECT_FALSE(choices.find("b"));
  choices.keep("b", {"cpu", "v8"});
  choices.keep("b", {"onednn", ""});
  EXPECT_EQ(choices.find("b"), (tune::PinnedChoice{"cpu", "v8"}));
}

}  // namespace
}  // namespace smelt::plan
