#include "plan/similar_choices.h"

#include <gmock/gmock.h>

#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

using ops::ChosenTactic;

TEST(SimilarChoices, gives_the_nearest_that_was_measured) {
  SimilarChoices choices;
  choices.keep({"conv", {1, 64}}, {"cpu", "narrow"}, ChosenBy::measurement);
  choices.keep({"conv", {1, 512}}, {"onednn", "wide"}, ChosenBy::measurement);
  EXPECT_EQ(choices.nearest({"conv", {1, 100}})->chosen, (ChosenTactic{"cpu", "narrow"}));
  EXPECT_EQ(choices.nearest({"conv", {1, 400}})->chosen, (ChosenTactic{"onednn", "wide"}));
  EXPECT_EQ(choices.nearest({"conv", {1, 8}})->chosen, (ChosenTactic{"cpu", "narrow"}));
}

TEST(SimilarChoices, gives_none_of_another_form_or_far_away) {
  SimilarChoices choices;
  choices.keep({"conv", {1, 64}}, {"cpu", ""}, ChosenBy::measurement);
  EXPECT_FALSE(choices.nearest({"other", {1, 64}}));
  EXPECT_FALSE(choices.nearest({"conv", {1, 64 * 17}})) << "more than 16 times";
  EXPECT_TRUE(choices.nearest({"conv", {1, 64 * 16}}));
  EXPECT_FALSE(choices.nearest({"conv", {0, 64}})) << "nothing to compute";
}

TEST(SimilarChoices, prefers_a_measured_one_to_a_nearer_estimate) {
  SimilarChoices choices;
  choices.keep({"conv", {100}}, {"cpu", "estimated"}, ChosenBy::estimates);
  EXPECT_EQ(choices.nearest({"conv", {150}})->chosen, (ChosenTactic{"cpu", "estimated"}));
  EXPECT_FALSE(choices.nearest({"conv", {300}})) << "an estimate holds for sizes up to twice as large";
  choices.keep({"conv", {800}}, {"cpu", "measured"}, ChosenBy::measurement);
  EXPECT_EQ(choices.nearest({"conv", {150}})->chosen, (ChosenTactic{"cpu", "measured"}));
  EXPECT_EQ(choices.nearest({"conv", {100}})->chosen, (ChosenTactic{"cpu", "estimated"})) << "these extents have their choice";
  choices.keep({"conv", {800}}, {"cpu", "estimated"}, ChosenBy::estimates);
  EXPECT_EQ(choices.nearest({"conv", {800}})->chosen, (ChosenTactic{"cpu", "measured"})) << "an estimate replaces no measurement";
}

TEST(SimilarChoices, gives_what_was_ready_where_nothing_better_is_near) {
  SimilarChoices choices;
  choices.keep({"conv", {100}}, {"cpu", "ready"}, ChosenBy::readiness);
  EXPECT_FALSE(choices.nearest({"conv", {201}})) << "it holds for sizes up to twice as large";
  const auto near = choices.nearest({"conv", {101}}), again = choices.nearest({"conv", {100}});
  ASSERT_TRUE(near && again);
  EXPECT_FALSE(near->same_extents);
  EXPECT_TRUE(again->same_extents);
  for (const auto& c : {*near, *again}) {
    EXPECT_EQ(c.by, ChosenBy::readiness);
    EXPECT_EQ(c.chosen, (ChosenTactic{"cpu", "ready"}));
  }
  choices.keep({"conv", {150}}, {"onednn", "code"}, ChosenBy::estimates);
  EXPECT_EQ(choices.nearest({"conv", {101}})->chosen, (ChosenTactic{"onednn", "code"}));
  EXPECT_EQ(choices.nearest({"conv", {100}})->chosen, (ChosenTactic{"cpu", "ready"})) << "these extents have their choice";
}

TEST(SimilarChoices, prefers_extents_that_divide_alike) {
  SimilarChoices choices;
  choices.keep({"conv", {96}}, {"cuda", "v8"}, ChosenBy::measurement);
  choices.keep({"conv", {99}}, {"cuda", "v1"}, ChosenBy::measurement);
  EXPECT_EQ(choices.nearest({"conv", {101}})->chosen, (ChosenTactic{"cuda", "v1"}));
  EXPECT_EQ(choices.nearest({"conv", {112}})->chosen, (ChosenTactic{"cuda", "v8"}));
}

/// A product and its softmax over rows of a symbolic count.
Graph rows() {
  Builder b;
  const ValueId x = b.input("x", SymShape{Dim("n"), Dim(64)});
  const ValueId y = b.node("y", "MatMul", {x, b.weights("w", {64, 48})}, SymShape{Dim("n"), Dim(48)});
  b.output(b.node("z", "Softmax", {y}, SymShape{Dim("n"), Dim(48)}, DType::f32, {{"axis", int64_t{-1}}}));
  return std::move(b.g);
}

std::vector<std::string> tactics(const std::vector<StepInfo>& steps) {
  std::vector<std::string> all;
  for (const StepInfo& s : steps) all.push_back(s.tactic + " " + s.config);
  return all;
}

TEST(NewShapes, are_not_measured_in_a_run) {
  Options options = quick();
  options.tuning_level = 1;
  const auto plan = Plan::build(rows(), options);
  const auto execution = plan->execution();
  for (int64_t n : {33, 1, 700}) {
    execution->bind(std::vector{random_tensor({n, 64}, 1)});
    EXPECT_EQ(plan->build_info().measured, 0) << n;
  }
}

TEST(NewShapes, take_what_was_measured_for_a_profile) {
  Options options = quick();
  options.tuning_level = 1;
  options.profiles = {{{"x", {{16, 64}, {64, 64}, {256, 64}}}}};
  const auto plan = Plan::build(rows(), options);
  const int64_t measured = plan->build_info().measured;
  EXPECT_GT(measured, 0);
  const auto execution = plan->execution();
  const auto tactics_at = [&](int64_t n) {
    execution->bind(std::vector{random_tensor({n, 64}, 1)});
    return tactics(execution->steps());
  };
  EXPECT_EQ(tactics_at(68), tactics_at(64));
  EXPECT_EQ(tactics_at(260), tactics_at(256));
  EXPECT_EQ(plan->build_info().measured, measured);
}

TEST(NewShapes, refuse_a_profile_that_does_not_fit_the_inputs) {
  for (const ShapeProfile& wrong :
       {ShapeProfile{{"gone", {{1, 64}, {1, 64}, {1, 64}}}}, ShapeProfile{{"x", {{1, 64}, {2, 65}, {3, 64}}}},
        ShapeProfile{{"x", {{8, 64}, {4, 64}, {16, 64}}}}, ShapeProfile{{"x", {{8}, {8}, {8}}}}, ShapeProfile{}}) {
    Options options = quick();
    options.profiles = {wrong};
    EXPECT_THROW(Plan::build(rows(), options), Error);
  }
}

}  // namespace
}  // namespace smelt::plan
