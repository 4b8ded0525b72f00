// The verdict, what next, and who else was at work.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "report/report.h"

namespace smelt::report {
namespace {

/// "Others use the GPU: busy for 38% of the time while this did nothing (pid 77: 38%, 1 GiB); …".
std::string gpu_others_text(const profile::OtherWork& o) {
  std::string who;
  for (const profile::GpuUse::Process& p : o.gpu.processes) {
    who += fmt::format("{}process {}: {:.0f}%", who.empty() ? " (" : "; ", p.pid, p.busy_percent);
    if (p.memory_bytes > 0) who += ", " + format(static_cast<double>(p.memory_bytes), Unit::bytes);
  }
  std::string text = fmt::format("Others use the GPU: busy for {}% of the time while this did nothing{}{}", o.gpu.busy_percent,
                                 who, who.empty() ? "" : ")");
  if (o.disturbed == 0) return text + "; no run took longer for it";
  return text + fmt::format("; {} of {} runs took longer, which cost a run {} (beyond its steps and gaps)", o.disturbed, o.runs,
                            format(o.cost_us, Unit::us));
}

}  // namespace

Table advice_table(const profile::Profile& p) {
  Table t{.key = "advice",
          .title = "Why slow, what next",
          .columns = {{"what", "what to do"},
                      {"us", "may save", Unit::us},
                      {"share", "of a run", Unit::percent},
                      {"why", "why"},
                      {"from", "known from"},
                      {"steps", "where"},
                      {"option", "followed by"},
                      {"tried_us", "saved when tried", Unit::us}}};
  for (const profile::Advice& a : p.advice)
    t.rows.push_back({a.what, a.us, p.of_run(a.us), a.why, a.from, a.steps, a.option, a.tried_us.value_or(std::nan(""))});
  t.note = "What two of them save may be the same time";
  return t;
}

std::string advice_text(const profile::Profile& p) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(p.advice.size(), 5); ++i) {
    const profile::Advice& a = p.advice[i];
    text += fmt::format("{}\n  {}. {}{} ({}){}: {}\n     {} ({})", text.empty() ? "Why slow, what next" : "", i + 1,
                        a.from == "roof" ? "at most " : "", format(a.us, Unit::us), format(p.of_run(a.us), Unit::percent),
                        a.tried_us ? fmt::format(", {} when tried", format(*a.tried_us, Unit::us)) : "", a.what, a.why, a.from);
    if (!a.steps.empty()) text += "\n     " + joined(a.steps, 3);
  }
  return text;
}

std::string others_text(const profile::Profile& p) {
  const profile::OtherWork& o = p.others;
  if (o.gpu.busy_percent > 0 || !o.gpu.processes.empty()) return gpu_others_text(o);
  if (o.disturbed == 0) return "";
  std::string text = fmt::format("Other work took cores during {} of {} measurements: threads waited {} for one", o.disturbed,
                                 o.runs, format(o.waited_us, Unit::us));
  if (o.stolen_us > 0) text += fmt::format(", the hypervisor took {}", format(o.stolen_us, Unit::us));
  if (o.throttled_us > 0) text += fmt::format(", a quota stopped them for {}", format(o.throttled_us, Unit::us));
  return text + fmt::format("; it cost a run {} ({})", format(o.cost_us, Unit::us),
                            o.cost_measured ? "against those that were left alone" : "by the time waited");
}

}  // namespace smelt::report
