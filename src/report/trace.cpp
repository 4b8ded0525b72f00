// One run as Chrome's and Perfetto's trace events.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/report.h"

namespace smelt::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr int run_thread = 1, copy_thread = 2;  // the trace's threads

double us(int64_t ns) { return static_cast<double>(ns) / 1e3; }

}  // namespace

std::string chrome_trace(const profile::Profile& p) {
  Json events = Json::array();
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", "smelt " + p.model}}}});
  const auto name_thread = [&](int thread, const char* name) {
    events.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", thread}, {"args", {{"name", name}}}});
  };
  name_thread(run_thread, "run");
  if (!p.host_run.copies.empty()) name_thread(copy_thread, "copies");
  const std::vector<StepTime>& timeline = p.host_run.copies.empty() ? p.timeline : p.host_run.steps;

  const auto slice = [&](const std::string& name, const char* kind, int thread, int64_t begin_ns, int64_t end_ns,
                         const Json& args = {}) {
    events.push_back({{"name", name},
                      {"cat", kind},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", thread},
                      {"ts", us(begin_ns)},
                      {"dur", us(end_ns - begin_ns)}});
    if (!args.is_null()) events.back()["args"] = args;
  };
  // A module's slice spans its consecutive steps and ends when a step outside of it begins.
  struct Open {
    std::string path;
    int64_t begin_ns;
  };
  std::vector<Open> open;
  int64_t last_end_ns = 0;
  const auto close_to = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back()) slice(open.back().path, "module", run_thread, open.back().begin_ns, last_end_ns);
  };
  for (size_t i = 0; i < p.steps.size() && i < timeline.size(); ++i) {
    const StepInfo& s = p.steps[i].step;
    const StepTime& time = timeline[i];
    std::vector<std::string> scope;
    if (!s.scopes.empty())
      for (const std::string& part : s.scopes.front())
        if (!part.empty()) scope.push_back(part);
    size_t same = 0;
    while (same < open.size() && same < scope.size() && open[same].path == scope[same]) ++same;
    close_to(same);
    for (size_t d = same; d < scope.size(); ++d) open.push_back({scope[d], time.begin_ns});
    slice(s.name, "step", run_thread, time.begin_ns, time.end_ns,
          {{"op", s.op}, {"problem", s.problem}, {"tactic", s.tactic}, {"sources", s.sources}, {"outputs", s.output_shapes}});
    events.push_back(
        {{"name", "memory"},
         {"ph", "C"},
         {"pid", 1},
         {"ts", us(time.begin_ns)},
         {"args",
          {{"inputs and outputs", s.memory.bound}, {"activations", s.memory.activations}, {"workspace", s.memory.workspace}}}});
    last_end_ns = time.end_ns;
  }
  close_to(0);
  // Tracing makes a graph's launch longer. The trace says so, so that nobody takes that time for the run's.
  int64_t copied_ns = 0;
  for (const CopyTime& c : p.host_run.copies)
    if (!timeline.empty() && c.end_ns <= timeline[0].begin_ns) copied_ns = std::max(copied_ns, c.end_ns);
  if (copied_ns > 0) slice("launching, longer while it is traced", "launch", copy_thread, copied_ns, timeline[0].begin_ns);
  for (const CopyTime& c : p.host_run.copies)
    slice(c.name.empty() ? "copy" : c.name, "copy", copy_thread, c.begin_ns, c.end_ns,
          {{"way", std::string(smelt::name(c.way))}, {"bytes", c.bytes}});
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace smelt::report
