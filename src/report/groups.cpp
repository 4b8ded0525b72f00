// What fusing did to a run: each fused group against its nodes before, and the way from one run's time to the other's.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "report/report.h"

namespace smelt::report {

Table group_table(const profile::Profile& before, const profile::Profile& after) {
  Table t{.key = "groups",
          .title = "Fused groups, before and after",
          .columns = {{"step", "step"},
                      {"before_us", "its nodes before", Unit::us},
                      {"after_us", "fused", Unit::us},
                      {"saved_us", "saved", Unit::us},
                      {"limiter", "limited by now"},
                      {"nodes", "nodes"}}};
  std::map<std::string, double> us;
  for (const profile::StepRow& r : before.steps)
    if (r.step.sources.size() == 1) us[r.step.sources.front()] += r.us.median;
  for (const profile::StepRow& r : after.steps) {
    if (r.step.sources.size() < 2) continue;
    double sum = 0;
    for (const std::string& n : r.step.sources)
      if (const auto at = us.find(n); at != us.end()) sum += at->second;
    t.rows.push_back({r.step.name, sum, r.us.median, sum - r.us.median, profile::name(r.limiter), r.step.sources});
  }
  t.sort_by("saved_us");
  return t;
}

Table waterfall_table(const profile::Profile& before, const profile::Profile& after) {
  constexpr size_t most = 10;  // groups that are shown by themselves
  Table t{.key = "waterfall",
          .title = "From before to after",
          .columns = {{"step", "step"},
                      {"part", "part"},
                      {"change_us", "change", Unit::us},
                      {"from_us", "from", Unit::us},
                      {"to_us", "to", Unit::us}}};
  struct Change {
    std::string name;
    double us;
  };
  std::vector<Change> groups;
  for (const auto& row : group_table(before, after).rows) groups.push_back({row[0].text, -row[3].number});
  if (groups.empty()) return t;
  std::ranges::stable_sort(groups, std::greater(), [](const Change& c) { return std::abs(c.us); });
  double at = before.steps_us, rest = 0;
  const auto add = [&](const std::string& name, const char* part, double us) {
    t.rows.push_back({name, part, us, at, at + us});
    at += us;
  };
  t.rows.push_back({"before", "before", 0.0, 0.0, at});
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i < most)
      add(groups[i].name, "group", groups[i].us);
    else
      rest += groups[i].us;
  }
  if (groups.size() > most) add(fmt::format("{} more groups", groups.size() - most), "groups", rest);
  add("all other steps", "rest", after.steps_us - at);
  t.rows.push_back({"after", "after", 0.0, 0.0, at});
  t.note =
      "Sums of the steps' times; a change below zero is time won. All other steps: what stayed unfused, by another kernel or "
      "layout";
  return t;
}

}  // namespace smelt::report
