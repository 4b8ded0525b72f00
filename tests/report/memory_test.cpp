// What a profile says of memory, wherever it is printed.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "report/document.h"
#include "report/report.h"

namespace smelt::report {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// Two steps over weights of 1 MiB; the second holds the most.
profile::Profile two_steps() {
  profile::Profile p;
  p.footprint = {.arena = 3 << 20, .weights = 1 << 20};
  const auto add = [&](const char* name, StepMemory memory, int64_t begin_ns) {
    profile::StepRow row;
    row.step.name = name;
    row.step.memory = memory;
    p.steps.push_back(row);
    p.timeline.push_back({begin_ns, begin_ns + 1000});
  };
  add("first", {.bound = 1 << 20, .activations = 1 << 20, .workspace = 0}, 0);
  add("second", {.bound = 1 << 20, .activations = 2 << 20, .workspace = 1 << 19}, 1000);
  p.peak_bytes = p.held(p.steps[1]);
  p.peak_step = "second";
  return p;
}

TEST(Memory, the_most_that_is_held_is_said_below_the_table) {
  EXPECT_THAT(memory_table(two_steps()).note,
              HasSubstr("at most 4.50 MiB held at a time, in step second: weights, 1.00 MiB of inputs and outputs, 2.00 MiB of "
                        "activations, 512 KiB of workspace"));
  EXPECT_THAT(memory_table({}).note, Not(HasSubstr("held")));
}

TEST(Memory, each_step_has_it_in_json) {
  Report r;
  r.after = two_steps();
  const json after = json::parse(report::json(r))["after"];
  EXPECT_EQ(after["peak_bytes"], (9 << 20) / 2);
  EXPECT_EQ(after["peak_step"], "second");
  const json expected = {
      {"bound_bytes", 1 << 20}, {"activation_bytes", 1 << 20}, {"workspace_bytes", 0}, {"held_bytes", 3 << 20}};
  EXPECT_EQ(after["steps"][0]["memory"], expected);
}

TEST(Memory, a_trace_counts_it_where_each_step_begins) {
  const json trace = json::parse(chrome_trace(two_steps()));
  std::vector<json> counters;
  for (const json& e : trace["traceEvents"])
    if (e["ph"] == "C") counters.push_back(e);
  ASSERT_EQ(counters.size(), 2u);
  EXPECT_EQ(counters[1]["ts"], 1.0);
  EXPECT_EQ(counters[1]["args"]["workspace"], 1 << 19);
}

TEST(Memory, the_page_gets_it_over_the_time_of_a_run) {
  Report r;
  r.after = two_steps();
  const json held = json::parse(page_data(r))["after"]["held"];
  EXPECT_EQ(held["weights"], "1.00 MiB");
  EXPECT_EQ(held["steps"][1]["begin_us"], 1.0);
  EXPECT_EQ(held["steps"][1]["bytes"], json({1 << 20, 2 << 20, 1 << 19}));
  EXPECT_THAT(held["steps"][1]["text"].get<std::string>(), HasSubstr("4.50 MiB held"));
}

}  // namespace
}  // namespace smelt::report
