// What building a plan did.
#include <fmt/ranges.h>

#include "graph/graph.h"
#include "report/report.h"
#include "run/early_launch.h"

namespace smelt::report {

Table plan_table(const Plan& plan, double build_s) {
  const BuildInfo b = plan.build_info();
  Table t{.key = "plan",
          .title = "Plan",
          .columns = {{"nodes", "nodes", Unit::count},
                      {"build_s", "build", Unit::seconds},
                      {"tuning_level", "tuning level", Unit::count},
                      {"problems", "problems", Unit::count},
                      {"measured", "measured", Unit::count},
                      {"cached", "from the cache", Unit::count},
                      {"tuning_s", "measuring", Unit::seconds},
                      {"clocks", "clocks"},
                      {"early_launch", "kernels begin early"}}};
  t.rows.push_back({static_cast<int64_t>(plan.graph().live_nodes()), build_s, b.tuning_level, b.problems, b.measured, b.cached,
                    b.tuning_s, clocks_text(b.clocks), early_launch_text(run::early_launch_of(plan))});
  return t;
}

std::string early_launch_text(const plan::EarlyLaunch& e) {
  if (e.by == plan::EarlyLaunch::By::nothing) return e.why_not.empty() ? "" : "no: " + e.why_not;
  std::string text = fmt::format("{}, by {}", e.on ? "yes" : "no", plan::text_of(e.by));
  if (e.late_us > 0)
    text += fmt::format(": a run takes {} so, {} otherwise", format(e.early_us, Unit::us), format(e.late_us, Unit::us));
  return text;
}

Table early_launch_table(const Plan& plan) {
  Table t{
      .key = "early_launch",
      .title = "Kernels that begin before the one before them has ended",
      .columns = {{"on", "do"}, {"by", "decided by"}, {"late_us", "a run without", Unit::us}, {"early_us", "with", Unit::us}}};
  const plan::EarlyLaunch e = run::early_launch_of(plan);
  if (e.by != plan::EarlyLaunch::By::nothing || !e.why_not.empty())
    t.rows.push_back(
        {e.on ? "yes" : "no", e.why_not.empty() ? std::string(plan::text_of(e.by)) : e.why_not, e.late_us, e.early_us});
  return t;
}

std::string clocks_text(const ClocksSeen& c) {
  if (c.highest_mhz == 0) return "";
  std::string text = c.lowest_mhz < c.highest_mhz ? fmt::format("{} to ", c.lowest_mhz) : "";
  text += std::to_string(c.highest_mhz);
  text += c.most_mhz > 0 ? fmt::format(" of {} MHz", c.most_mhz) : " MHz";
  return c.slowed_by.empty() ? text : fmt::format("{}, held down by {}", text, fmt::join(c.slowed_by, ", "));
}

Table build_table(const Plan& plan) {
  Table t{.key = "build", .title = "Build", .columns = {{"stage", "stage"}, {"seconds", "time", Unit::seconds}}};
  for (const BuildStage& s : plan.build_info().stages) t.rows.push_back({s.name, s.seconds});
  return t;
}

std::string stages_text(const Plan& plan) {
  std::vector<std::string> stages;
  for (const BuildStage& s : plan.build_info().stages)
    if (s.seconds >= 1e-3) stages.push_back(fmt::format("{} {}", s.name, format(s.seconds, Unit::seconds)));
  return fmt::format("{}", fmt::join(stages, ", "));
}

}  // namespace smelt::report
