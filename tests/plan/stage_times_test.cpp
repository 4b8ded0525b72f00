// Where the time of a build goes.
#include "plan/stage_times.h"

#include <gmock/gmock.h>

#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

std::vector<std::string> names(const std::vector<BuildStage>& stages) {
  std::vector<std::string> all;
  for (const BuildStage& s : stages) all.push_back(s.name);
  return all;
}

TEST(StageTimes, add_up_by_name_in_the_order_of_their_first_end) {
  StageTimes stages;
  stages.add("import", 1);
  stages.add("tuning", 0.5);
  stages.add("import", 2);
  ASSERT_THAT(names(stages.list()), ::testing::ElementsAre("import", "tuning"));
  EXPECT_EQ(stages.list()[0].seconds, 3);
  StageClock clock(stages);
  clock.end("tuning");
  EXPECT_GE(stages.list()[1].seconds, 0.5);
}

TEST(StageTimes, of_a_build_are_all_that_it_does_and_those_of_what_is_bound_later) {
  Options options = quick();
  options.tune_new_shapes = true;  // else kernels that are ready at once are taken, and no stage is left
  const auto plan = Plan::build(symbolic_graph(), options);
  EXPECT_THAT(names(plan->build_info().stages), ::testing::ElementsAre("device", "rewriting"));
  Session(plan).run({{"x", random_tensor({2, 3, 4}, 1)}});
  EXPECT_THAT(names(plan->build_info().stages),
              ::testing::ElementsAre("device", "rewriting", "planning", "candidates", "compiling", "tuning", "kernels"));
}

}  // namespace
}  // namespace smelt::plan
