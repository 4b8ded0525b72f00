// What a profile says of copies from and to the host's memory, wherever it is printed.
#include <gmock/gmock.h>

#include <array>
#include <nlohmann/json.hpp>

#include "report/document.h"
#include "report/report.h"

namespace smelt::report {
namespace {

using nlohmann::json;
using testing::HasSubstr;

profile::Summary once(double us) { return profile::summarize(std::array{us}); }

/// One step of 5 µs; 1 MB to the device in 20 µs before it, 1 kB back in 2 µs.
profile::Profile one_step() {
  profile::Profile p;
  profile::StepRow row;
  row.step.name = "product";
  p.steps.push_back(row);
  p.timeline = {{0, 5000}};
  p.latency_us = once(6);
  p.copies = {{"x", CopyTime::Way::to_device, 1'000'000, once(20)}, {"y", CopyTime::Way::to_host, 1000, once(2)}};
  p.host_latency_us = once(40);
  p.host_run = {{{21'000, 26'000}},
                {{"x", CopyTime::Way::to_device, 1'000'000, 0, 20'000}, {"y", CopyTime::Way::to_host, 1000, 27'000, 29'000}}};
  return p;
}

TEST(Copies, have_a_table_with_their_rates_and_what_they_add_to_a_run) {
  const std::string text = print(copy_table(one_step()));
  EXPECT_THAT(text, HasSubstr("x   host to device"));
  EXPECT_THAT(text, HasSubstr("50.0 GB/s"));
  EXPECT_THAT(text, HasSubstr("together 22.0 µs; from and to the host's memory a run takes 40.0 µs by the host's clock (median "
                              "of 1), from and to the device's 6.00 µs"));
}

TEST(Copies, are_in_json) {
  Report r;
  r.after = one_step();
  const json after = json::parse(report::json(r))["after"];
  ASSERT_EQ(after["copies"].size(), 2u);
  EXPECT_EQ(after["copies"][0]["name"], "x");
  EXPECT_EQ(after["copies"][0]["way"], "host to device");
  EXPECT_EQ(after["copies"][0]["bytes"], 1'000'000);
  EXPECT_EQ(after["copies"][0]["us"], 20);
  EXPECT_EQ(after["host_latency_us"]["median"], 40);
}

TEST(Copies, the_trace_has_them_beside_the_steps_of_their_own_run) {
  const json trace = json::parse(chrome_trace(one_step()));
  std::vector<json> copies, steps, launches;
  for (const json& e : trace["traceEvents"]) {
    if (e.value("cat", "") == "copy") copies.push_back(e);
    if (e.value("cat", "") == "step") steps.push_back(e);
    if (e.value("cat", "") == "launch") launches.push_back(e);
  }
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0]["ts"], 20.0) << "from the copy's end to the first step";
  EXPECT_EQ(launches[0]["dur"], 1.0);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]["ts"], 21.0);
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0]["name"], "x");
  EXPECT_NE(copies[0]["tid"], steps[0]["tid"]);
  EXPECT_EQ(copies[0]["ts"], 0.0);
  EXPECT_EQ(copies[0]["dur"], 20.0);
  EXPECT_EQ(copies[1]["args"]["bytes"], 1000);
}

TEST(Copies, a_profile_without_them_does_not_speak_of_them) {
  profile::Profile p = one_step();
  p.copies.clear();
  p.host_run = {};
  p.host_latency_us = {};
  Report r;
  r.after = p;
  const json after = json::parse(report::json(r))["after"];
  EXPECT_TRUE(after["copies"].empty());
  EXPECT_TRUE(after["host_latency_us"].is_null());
  EXPECT_FALSE(json::parse(page_data(r))["after"].contains("copies"));
  EXPECT_THAT(chrome_trace(p), Not(HasSubstr("copies")));
}

TEST(Copies, the_page_gets_their_table) {
  Report r;
  r.after = one_step();
  const json copies = json::parse(page_data(r))["after"]["copies"];
  EXPECT_EQ(copies["rows"].size(), 2u);
  EXPECT_THAT(copies["note"].get<std::string>(), HasSubstr("22.0 µs"));
}

}  // namespace
}  // namespace smelt::report
