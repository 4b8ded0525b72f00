#include "report/contention.h"

#include <fmt/core.h>

#include <algorithm>

namespace smelt::report {

using profile::Served;

Table contention_table(const std::vector<std::string>& names, const std::vector<profile::Alone>& alone,
                       const std::vector<Served>& together, const std::vector<double>& predicted) {
  Table t{.key = "contention",
          .title = "Together, against each alone",
          .columns = {{"model", "model"},
                      {"alone_us", "alone", Unit::us},
                      {"alone_p99_us", "p99", Unit::us},
                      {"together_us", "together", Unit::us},
                      {"together_p99_us", "p99 ", Unit::us},
                      {"slower", "times", Unit::ratio},
                      {"predicted", "expected", Unit::ratio},
                      {"cores_us", "no core", Unit::us},
                      {"memory_us", "memory, caches", Unit::us},
                      {"queueing_us", "queueing", Unit::us},
                      {"per_s", "a second", Unit::value}}};
  for (size_t i = 0; i < names.size(); ++i) {
    const profile::SlowDown d = profile::slow_down(alone[i].served, together[i]);
    t.rows.push_back({names[i], d.alone_us, alone[i].served.response().p99, d.together_us, together[i].response().p99, d.ratio(),
                      predicted[i], d.cores_us, d.memory_us, d.queueing_us, together[i].per_s()});
  }
  t.note =
      "Means and 99th percentiles of what a request takes; no core: its threads were ready and waited (run-queue time); "
      "expected: from what each does alone";
  return t;
}

Table contended_step_table(const profile::Alone& alone, const Served& together) {
  Table t{.key = "steps",
          .title = "Steps of the first model",
          .columns = {{"name", "step"},
                      {"op", "operator"},
                      {"limiter", "limited by"},
                      {"alone_us", "alone", Unit::us},
                      {"together_us", "together", Unit::us},
                      {"slower_us", "longer", Unit::us},
                      {"cores_us", "no core", Unit::us},
                      {"memory_us", "memory, caches", Unit::us}}};
  const auto steps = profile::step_slow_downs(alone.served, together);
  for (size_t i = 0; i < std::min(steps.size(), alone.steps.size()); ++i)
    t.rows.push_back({alone.steps[i].name, alone.steps[i].op, profile::name(alone.limiters[i]), steps[i].alone_us,
                      steps[i].together_us, std::max(0.0, steps[i].together_us - steps[i].alone_us), steps[i].cores_us,
                      steps[i].memory_us});
  return t;
}

Table remedy_table(const std::string& first, const std::vector<Arranged>& arranged) {
  Table t{.key = "remedies",
          .title = "What helps the first",
          .columns = {{"arrangement", "arrangement"},
                      {"median_us", "its median", Unit::us},
                      {"p99_us", "its p99", Unit::us},
                      {"change", "p99, change", Unit::percent},
                      {"others_per_s", "others a second", Unit::value},
                      {"others_p99_us", "others' p99", Unit::us},
                      {"how", "how"}}};
  const auto p99_of = [](const Arranged& a) { return a.served[0].response().p99; };
  const double p99 = p99_of(arranged.front());
  for (const Arranged& a : arranged) {
    double per_s = 0, worst = 0;
    for (size_t i = 1; i < a.served.size(); ++i)
      per_s += a.served[i].per_s(), worst = std::max(worst, a.served[i].response().p99);
    const profile::Summary own = a.served[0].response();
    t.rows.push_back({a.name, own.median, own.p99, own.p99 / p99 - 1, per_s, worst, a.how});
  }
  const Arranged& best = *std::ranges::min_element(arranged, {}, p99_of);
  t.note = &best == &arranged.front()
               ? fmt::format("None of them lowers the p99 of {}", first)
               : fmt::format("{}: p99 of {} from {} to {} ({}): {}", best.name, first, format(p99, Unit::us),
                             format(p99_of(best), Unit::us), format(p99_of(best) / p99 - 1, Unit::percent), best.how);
  return t;
}

}  // namespace smelt::report
