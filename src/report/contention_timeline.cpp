// Requests and steps of models that run together, on one clock.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/contention.h"
#include "report/report.h"

namespace smelt::report {
namespace {

using Json = nlohmann::ordered_json;
using profile::Served;
using profile::ServedRun;

/// At most: a GPU's models answer some hundred times as many requests.
int64_t shown_ns(const Contended& c) { return c.gpu ? 20'000'000 : 1'000'000'000; }

double us(int64_t ns) { return static_cast<double>(ns) * 1e-3; }

/// The models' requests that lie in their common window, by time from its beginning.
Json timeline(const Contended& c, const Arranged& a) {
  const auto [begin, end] = profile::common_window(a.served, shown_ns(c));
  Json models = Json::array();
  for (size_t i = 0; i < a.served.size(); ++i) {
    Json requests = Json::array();
    for (const ServedRun& r : a.served[i].last) {
      if (r.end_ns <= begin || r.arrival_ns >= end) continue;
      Json steps = Json::array();
      for (const StepTime& s : r.steps) steps.push_back({us(r.begin_ns + s.begin_ns - begin), us(r.begin_ns + s.end_ns - begin)});
      requests.push_back({{"arrival_us", us(r.arrival_ns - begin)},
                          {"begin_us", us(r.begin_ns - begin)},
                          {"end_us", us(r.end_ns - begin)},
                          {"steps_us", steps}});
    }
    Json names = Json::array();
    for (const StepInfo& s : c.alone[i].steps) names.push_back(s.name);
    models.push_back({{"model", c.names[i]}, {"steps", names}, {"requests", requests}});
  }
  return {{"arrangement", a.name}, {"us", us(end - begin)}, {"models", models}};
}

}  // namespace

std::string contention_timelines(const Contended& c) {
  Json all = Json::array({timeline(c, c.arranged.front())});
  if (const Arranged& best = chosen(c); &best != &c.arranged.front()) all.push_back(timeline(c, best));
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string contention_json(const Contended& c) {
  Json o = {{"format", "smelt.contention"}, {"version", 1}, {"verdict", contention_verdict(c)}};
  o["p99_us"] = c.p99_us > 0 ? Json(c.p99_us) : Json(nullptr);
  o["chosen"] = chosen(c).name;
  std::vector<Table> tables{contention_table(c), contended_step_table(c), remedy_table(c)};
  if (c.gpu) tables.push_back(gpu_work_table(c));
  o.update(Json::parse(table_json(tables)));
  if (c.gpu) {
    Json beside = Json::array();
    for (const profile::GpuAlone& a : c.gpu_alone) beside.push_back(a.beside_us);
    o["beside_us"] = beside, o["limits_from"] = c.limits_from;
  }
  o["timelines"] = Json::parse(contention_timelines(c));
  return o.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string contention_trace(const Contended& c) {
  const Arranged& a = c.arranged.front();
  const auto [begin, end] = profile::common_window(a.served, shown_ns(c));
  Json events = Json::array();
  const auto named = [&](size_t model, const char* what, const std::string& name) {
    events.push_back({{"name", what}, {"ph", "M"}, {"pid", model + 1}, {"tid", 1}, {"args", {{"name", name}}}});
  };
  for (size_t i = 0; i < a.served.size(); ++i) {
    named(i, "process_name", c.names[i]);
    named(i, "thread_name", "requests");
    const auto event = [&, begin = begin](const std::string& name, const char* kind, const char* phase, int64_t at) -> Json& {
      return events.emplace_back(
          Json{{"name", name}, {"cat", kind}, {"ph", phase}, {"pid", i + 1}, {"tid", 1}, {"ts", us(at - begin)}});
    };
    const auto slice = [&](const std::string& name, const char* kind, int64_t from, int64_t to) {
      event(name, kind, "X", from)["dur"] = us(to - from);
    };
    size_t count = 0;
    for (const ServedRun& r : a.served[i].last) {
      const std::string name = "request " + std::to_string(++count);
      if (r.end_ns <= begin || r.arrival_ns >= end) continue;
      if (r.begin_ns > r.arrival_ns) {  // several may wait at a time: spans of their own, beside the slices
        event(name + " waits", "queue", "b", r.arrival_ns)["id"] = count;
        event(name + " waits", "queue", "e", r.begin_ns)["id"] = count;
      }
      slice(name, "request", r.begin_ns, r.end_ns);
      for (size_t s = 0; s < std::min(r.steps.size(), c.alone[i].steps.size()); ++s) {
        const StepInfo& step = c.alone[i].steps[s];
        slice(step.name.empty() ? step.op : step.name, "step", r.begin_ns + r.steps[s].begin_ns, r.begin_ns + r.steps[s].end_ns);
      }
    }
  }
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace smelt::report
