#include "report/timings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "profile/advice.h"
#include "report/facts.h"

namespace smelt::report {
namespace {

Cell calls(double n) { return n == std::floor(n) && std::abs(n) < 1e15 ? Cell(static_cast<int64_t>(n)) : Cell(n); }

std::vector<Cell> sides(Cell first, const profile::TimeDifference& d) {
  const auto time = [](const std::optional<double>& us) { return Cell(us.value_or(NAN)); };
  return {std::move(first), time(d.a_us),
          time(d.b_us),     fmt::format("{}{}", d.change_us() < 0 ? "-" : "+", format(std::abs(d.change_us()), Unit::us)),
          d.change_us(),    d.a_us && d.b_us && *d.a_us > 0 ? Cell(*d.b_us / *d.a_us) : Cell("")};
}

std::vector<Column> sides(Column first, const profile::Timings& a, const profile::Timings& b) {
  // The same file's name twice says nothing.
  const bool named = a.file != b.file;
  return {std::move(first),     {"a_us", named ? a.file : "first", Unit::us},  {"b_us", named ? b.file : "second", Unit::us},
          {"change", "change"}, {"change_us", "change in µs", Unit::us, true}, {"ratio", "ratio", Unit::ratio}};
}

std::string origin(const profile::Timings& t) {
  return fmt::format("{}: {}, {} of {} run{}", t.file, t.origin, t.gpu ? "the GPU's times" : "the processor's times", t.runs,
                     t.runs == 1 ? "" : "s");
}

}  // namespace

Table node_table(const profile::Timings& t) {
  Table table{.key = "nodes",
              .title = "Time per node",
              .columns = {{"name", "node"},
                          {"op", "operator"},
                          {"self_us", "self", Unit::us},
                          {"share", "share", Unit::percent},
                          {"calls", "calls", Unit::count},
                          {"self_cpu_us", "self, CPU", Unit::us, !t.gpu},
                          {"total_cpu_us", "total, CPU", Unit::us},
                          {"self_gpu_us", "self, GPU", Unit::us, true},
                          {"total_gpu_us", "total, GPU", Unit::us, true},
                          {"bytes", "allocates", Unit::bytes},
                          {"sources", "stands for"}}};
  const double all = t.total_us();
  for (const profile::NodeTime& n : t.nodes)
    table.rows.push_back({n.name, n.op, n.self_us(t.gpu), all > 0 ? n.self_us(t.gpu) / all : 0.0, calls(n.calls),
                          positive(n.self_cpu_us), positive(n.total_cpu_us), positive(n.self_gpu_us), positive(n.total_gpu_us),
                          positive(n.bytes), n.sources.size() == 1 && n.sources[0] == n.name ? Cell("") : Cell(n.sources)});
  table.note = fmt::format("{}; together {}", origin(t), format(all, Unit::us));
  return table;
}

Table scope_table(const profile::Timings& t) {
  Table table{.key = "scopes",
              .title = "Time per module",
              .columns = {{"path", "module"},
                          {"self_us", "self", Unit::us},
                          {"total_us", "total", Unit::us},
                          {"share", "share", Unit::percent},
                          {"calls", "calls", Unit::count},
                          {"total_cpu_us", "CPU", Unit::us, !t.gpu},
                          {"total_gpu_us", "GPU", Unit::us, true},
                          {"bytes", "allocates", Unit::bytes}}};
  const double all = t.total_us();
  for (const profile::ScopeTime& s : t.scopes())
    table.rows.push_back({module_cell(s.path, s.depth), s.self_us, s.total_us, all > 0 ? s.total_us / all : 0.0, calls(s.calls),
                          positive(s.total_cpu_us), positive(s.total_gpu_us), positive(s.bytes)});
  return table;
}

Report report_of(const profile::Timings& t) {
  Report r;
  r.title = t.file;
  r.machine = {{"times", "times", t.gpu ? "of the GPU" : "of the processor"}, {"runs", "runs", t.runs}};
  r.versions = version_facts();
  r.versions.insert(r.versions.begin(), {"written_by", "written by", t.origin});
  r.imported = t;
  profile::Profile& p = r.after.emplace();
  p.model = t.file;
  p.steps_us = p.latency_us.median = p.latency_us.mean = t.total_us();
  p.latency_us.count = t.runs;
  p.advice = profile::advise(t);
  return r;
}

Table scope_diff_table(const profile::Timings& a, const profile::Timings& b) {
  Table table{.key = "scopes", .title = "Time per module", .columns = sides({"path", "module"}, a, b)};
  for (const profile::TimeDifference& d : scope_differences(a, b)) table.rows.push_back(sides(module_cell(d.name, d.depth), d));
  return table;
}

Table node_diff_table(const profile::Timings& a, const profile::Timings& b) {
  Table table{.key = "nodes", .title = "Time per node, the largest change first", .columns = sides({"name", "node"}, a, b)};
  auto differences = node_differences(a, b);
  std::ranges::stable_sort(differences,
                           [](const auto& x, const auto& y) { return std::abs(x.change_us()) > std::abs(y.change_us()); });
  for (const profile::TimeDifference& d : differences) table.rows.push_back(sides(d.name, d));
  table.note = origin(a) + "\n" + origin(b);
  return table;
}

std::string diff_text(const profile::Timings& a, const profile::Timings& b) {
  const double first = a.total_us(), second = b.total_us();
  std::string text = fmt::format("{} in {}, {} in {}", format(first, Unit::us), a.file, format(second, Unit::us), b.file);
  if (first > 0 && second > 0) {
    const std::string times = fmt::format("{:.2f}", std::max(first / second, second / first));
    text += times == "1.00" ? ": as fast" : fmt::format(": {}x {}", times, second < first ? "faster" : "slower");
  }
  if (a.gpu != b.gpu) text += " (one side is a GPU's time, the other a processor's)";
  return text;
}

}  // namespace smelt::report
