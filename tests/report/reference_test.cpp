// Steps that run in the plain loops of their references are a warning wherever steps are printed.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "report/document.h"
#include "report/report.h"

namespace smelt::report {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

profile::Profile profile_of_tactics(const std::vector<std::pair<const char*, const char*>>& steps) {
  profile::Profile p;
  for (const auto& [op, tactic] : steps) {
    profile::StepRow row;
    row.step.op = op;
    row.step.tactic = tactic;
    row.share = 1.0 / static_cast<double>(steps.size());
    p.steps.push_back(row);
  }
  return p;
}

std::vector<StepInfo> steps_of(const profile::Profile& p) {
  std::vector<StepInfo> steps;
  for (const profile::StepRow& r : p.steps) steps.push_back(r.step);
  return steps;
}

TEST(ReferenceSteps, are_a_warning_with_their_share_of_the_time) {
  const profile::Profile p =
      profile_of_tactics({{"LSTM", "reference"}, {"Conv", "onednn"}, {"LSTM", "reference"}, {"Foo", "reference"}});
  constexpr const char* expected =
      "warning: 3 steps run in the plain loops of their references, 75.0% of the steps' time: Foo, LSTM (2)";
  EXPECT_EQ(reference_warning(p), expected);
  EXPECT_THAT(step_table(p).note, HasSubstr(expected));
  Report r;
  r.after = p;
  EXPECT_EQ(json::parse(report::json(r))["after"]["warnings"], json::array({expected}));
}

TEST(ReferenceSteps, are_a_warning_below_the_tactics) {
  const profile::Profile p = profile_of_tactics({{"LSTM", "reference"}, {"Conv", "onednn"}});
  EXPECT_EQ(tactic_table(steps_of(p)).note, "warning: 1 step runs in the plain loops of its reference: LSTM");
}

TEST(ReferenceSteps, are_no_warning_where_there_are_none) {
  const profile::Profile p = profile_of_tactics({{"Conv", "onednn"}, {"Add", "cpu"}});
  EXPECT_EQ(reference_warning(p), "");
  EXPECT_THAT(step_table(p).note, Not(HasSubstr("warning")));
  EXPECT_EQ(tactic_table(steps_of(p)).note, "");
  Report r;
  r.after = p;
  EXPECT_EQ(json::parse(report::json(r))["after"]["warnings"], json::array());
}

}  // namespace
}  // namespace smelt::report
