#include "report/live.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/report.h"

namespace smelt::report {
namespace {

double hundredths(double v) { return std::round(100 * v) / 100; }

Table model_table(const Live& live) {
  Table t{.key = "models",
          .title = fmt::format("After {}", format(live.begun_s, Unit::seconds)),
          .columns = {{"model", "model"},
                      {"per_s", "a second", Unit::count},
                      {"median_us", "median", Unit::us},
                      {"p99_us", "p99", Unit::us},
                      {"cores", "cores", Unit::value},
                      {"waiting", "no core", Unit::percent},
                      {"history", "p99 so far"}}};
  for (const LiveModel& m : live.models) {
    const profile::Summary s = m.served.response();
    const double busy = m.served.cpu_us + m.served.waited_us;
    t.rows.push_back({m.name, m.served.per_s(), s.median, s.p99,
                      m.served.seconds > 0 ? hundredths(m.served.cpu_us * 1e-6 / m.served.seconds) : 0.0,
                      busy > 0 ? m.served.waited_us / busy : 0.0, spark(m.p99_us)});
  }
  t.note = "no core: of the time that its threads had something to do, the part in which they waited for one";
  if (live.stolen >= 0.01) t.note += fmt::format("; the hypervisor took {:.2f} cores", live.stolen);
  return t;
}

Table live_step_table(const LiveModel& m, size_t most) {
  Table t{.key = "steps",
          .title = "Steps of " + m.name,
          .columns = {{"name", "step"},
                      {"op", "operator"},
                      {"limiter", "limited by"},
                      {"us", "now", Unit::us},
                      {"alone_us", "alone", Unit::us},
                      {"times", "times", Unit::ratio},
                      {"share", "share", Unit::percent}}};
  double all = 0;
  for (const double us : m.served.step_us) all += us;
  for (size_t i = 0; i < std::min(m.steps.size(), m.served.step_us.size()); ++i) {
    const double us = m.served.step_us[i], alone = m.alone_us[i];
    t.rows.push_back({m.steps[i].name, m.steps[i].op, profile::name(m.limiters[i]), us, alone,
                      alone > 0 ? Cell(us / alone) : Cell(""), all > 0 ? us / all : 0.0});
  }
  t.sort_by("us");
  t.keep_top(most);
  return t;
}

Table process_table(const Live& live) {
  Table t{.key = "processes",
          .title = fmt::format("After {}", format(live.begun_s, Unit::seconds)),
          .columns = {{"pid", "process"},
                      {"program", "program"},
                      {"threads", "threads", Unit::count},
                      {"cores", "cores", Unit::value},
                      {"waiting", "no core", Unit::percent},
                      {"resident_bytes", "memory", Unit::bytes}}};
  for (const LiveProcess& p : live.processes) {
    const auto ran = static_cast<double>(p.after.cpu_ns - p.before.cpu_ns);
    const auto waited = static_cast<double>(std::max<int64_t>(0, p.after.waited_ns - p.before.waited_ns));
    t.rows.push_back({p.pid, p.after.name, p.after.threads, live.interval_s > 0 ? hundredths(ran * 1e-9 / live.interval_s) : 0.0,
                      ran + waited > 0 ? waited / (ran + waited) : 0.0, p.after.resident});
  }
  return t;
}

Table other_table(const Live& live) {
  Table t{.key = "others",
          .title = fmt::format("Who else uses the {} core{}", live.cores, live.cores == 1 ? "" : "s"),
          .columns = {{"pid", "process"}, {"program", "program"}, {"cores", "cores", Unit::value}}};
  for (const device::cpu::BusyProcess& p : live.others) t.rows.push_back({p.pid, p.name, hundredths(p.cores)});
  return t;
}

}  // namespace

std::string spark(const std::deque<double>& values) {
  constexpr const char* blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double most = 0;
  for (const double v : values) most = std::max(most, v);
  std::string text;
  for (const double v : values) text += blocks[most > 0 ? std::min<size_t>(7, static_cast<size_t>(v / most * 8)) : 0];
  return text;
}

std::vector<Table> live_tables(const Live& live, size_t steps) {
  std::vector<Table> tables;
  if (!live.models.empty()) tables = {model_table(live), live_step_table(live.models.front(), steps)};
  if (!live.processes.empty()) tables.push_back(process_table(live));
  tables.push_back(other_table(live));
  return tables;
}

std::string live_json(const Live& live) {
  nlohmann::ordered_json o = {{"format", "smelt.watch"},       {"version", 1},        {"begun_s", live.begun_s},
                              {"interval_s", live.interval_s}, {"cores", live.cores}, {"stolen_cores", live.stolen}};
  o.update(nlohmann::ordered_json::parse(table_json(live_tables(live, SIZE_MAX))));
  return o.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace smelt::report
