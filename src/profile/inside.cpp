// What the steps inside of If, Loop and Scan take.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "profile/limiter.h"
#include "run/inner_times.h"

namespace smelt::profile {
namespace {

/// The top-level step that a row is inside of: "loop" of "loop: body".
std::string around(const InnerRow& r) { return r.path.front().substr(0, r.path.front().rfind(": ")); }

/// Whether r is directly inside of a body of the step `name`, which has `path` around it.
bool is_child(const InnerRow& r, std::span<const std::string> path, const std::string& name) {
  return r.path.size() == path.size() + 1 && std::ranges::equal(path, std::span(r.path).first(path.size())) &&
         r.path.back().substr(0, r.path.back().rfind(": ")) == name;
}

/// Gives a step of so many calls, which takes `us` a run, what is inside of it.
void take_in(StepRow& row, double calls, double us, const std::vector<const InnerRow*>& children) {
  if (children.empty() || calls <= 0 || us <= 0) return;
  double bytes = 0, flops = 0;
  std::map<Limiter, double> limited;
  row.compute_us = row.memory_us = 0;
  for (const InnerRow* c : children) {
    const double each = c->calls / calls;
    row.compute_us += each * c->row.compute_us, row.memory_us += each * c->row.memory_us;
    bytes += each * static_cast<double>(c->row.step.bytes), flops += each * static_cast<double>(c->row.step.flops);
    limited[c->row.limiter] += c->us;
  }
  row.step.bytes = std::llround(bytes), row.step.flops = std::llround(flops);
  row.roof_share = row.floor_us() / (us / calls);
  row.at_stake_us = std::max(0.0, us / calls - row.floor_us());
  row.limiter = std::ranges::max_element(limited, {}, [](const auto& l) { return l.second; })->first;
  const InnerRow& longest = **std::ranges::max_element(children, {}, [](const InnerRow* c) { return c->us; });
  row.because = fmt::format("inside of it, {} takes {:.0f}%: {}", longest.row.step.name, 100 * std::min(1.0, longest.us / us),
                            longest.row.because);
}

}  // namespace

void judge_by_inside(std::span<StepRow> steps, std::span<InnerRow> inside) {
  const auto children = [&](std::span<const std::string> path, const std::string& name) {
    std::vector<const InnerRow*> found;
    for (const InnerRow& r : inside)
      if (is_child(r, path, name)) found.push_back(&r);
    return found;
  };
  std::vector<InnerRow*> deepest_first;
  for (InnerRow& r : inside) deepest_first.push_back(&r);
  std::ranges::stable_sort(deepest_first, std::greater(), [](const InnerRow* r) { return r->path.size(); });
  for (InnerRow* r : deepest_first) take_in(r->row, r->calls, r->us, children(r->path, r->row.step.name));
  for (StepRow& s : steps) take_in(s, 1, s.own_us(), children({}, s.step.name));
}

std::vector<InnerRow> parents_first(std::vector<InnerRow> rows) {
  std::vector<InnerRow> ordered;
  const auto append = [&](const auto& self, InnerRow r) -> void {
    const std::vector<std::string> path = r.path;
    const std::string name = r.row.step.name;
    ordered.push_back(std::move(r));
    for (InnerRow& c : rows)
      if (!c.path.empty() && is_child(c, path, name)) self(self, std::exchange(c, {}));
  };
  for (InnerRow& r : rows)
    if (r.path.size() == 1) append(append, std::exchange(r, {}));
  for (InnerRow& r : rows)  // of a step without a name
    if (!r.path.empty()) ordered.push_back(std::move(r));
  return ordered;
}

void fit_into(std::span<InnerRow> rows, std::span<const StepRow> steps) {
  std::map<std::string, double> whole, parts;
  for (const StepRow& s : steps) whole[s.step.name] += s.us.median;
  for (const InnerRow& r : rows)
    if (r.path.size() == 1) parts[around(r)] += r.us;
  for (InnerRow& r : rows) {
    const auto found = whole.find(around(r));
    if (found == whole.end()) continue;
    const double factor = std::min(1.0, found->second / std::max(parts[around(r)], 1e-9));
    r.us *= factor;
    for (double* us : {&r.row.us.median, &r.row.us.mean, &r.row.us.min}) *us *= factor;
  }
}

std::vector<InnerRow> inner_rows(Execution& execution, std::span<const StepRow> steps, const Roof& roof, int runs) {
  std::vector<run::InnerStep> fastest;
  double least = 0;
  for (int i = 0; i < runs; ++i) {
    const run::InnerTimes times;
    execution.run();
    if (times.steps().empty()) return {};
    double ns = 0;
    for (const run::InnerStep& s : times.steps())
      if (s.path.size() == 1) ns += static_cast<double>(s.ns);
    if (i == 0 || ns < least) least = ns, fastest = times.steps();
  }
  std::vector<InnerRow> rows;
  for (run::InnerStep& s : fastest) {
    InnerRow r{std::move(s.path), {.step = std::move(s.step)}};
    r.calls = static_cast<double>(s.calls), r.us = static_cast<double>(s.ns) * 1e-3;
    r.row.us.median = r.row.us.mean = r.row.us.min = r.us / r.calls;
    rows.push_back(std::move(r));
  }
  fit_into(rows, steps);
  for (InnerRow& r : rows) judge(r.row, roof);
  return parents_first(std::move(rows));
}

}  // namespace smelt::profile
