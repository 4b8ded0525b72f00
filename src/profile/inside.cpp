// What the steps inside of If, Loop and Scan take.
#include <algorithm>
#include <map>

#include "profile/limiter.h"
#include "run/inner_times.h"

namespace smelt::profile {
namespace {

/// The top-level step that a row is inside of: "loop" of "loop: body".
std::string around(const InnerRow& r) { return r.path.front().substr(0, r.path.front().rfind(": ")); }

}  // namespace

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
  return rows;
}

}  // namespace smelt::profile
