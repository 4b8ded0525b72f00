// What the steps inside of If, Loop and Scan take.
#include "profile/limiter.h"
#include "run/inner_times.h"

namespace smelt::profile {

std::vector<InnerRow> inner_rows(Execution& execution, const Roof& roof, int runs) {
  const run::InnerTimes times;
  execution.run();
  if (times.steps().empty()) return {};
  for (int i = 1; i < runs; ++i) execution.run();
  std::vector<run::InnerStep> steps = times.steps();
  std::vector<InnerRow> rows;
  for (run::InnerStep& s : steps) {
    InnerRow r{std::move(s.path), {.step = std::move(s.step)}};
    const double us = static_cast<double>(s.ns) * 1e-3;
    r.calls = static_cast<double>(s.calls) / runs, r.us = us / runs;
    r.row.us.median = r.row.us.mean = us / static_cast<double>(s.calls);
    judge(r.row, roof);
    rows.push_back(std::move(r));
  }
  return rows;
}

}  // namespace smelt::profile
