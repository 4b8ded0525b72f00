#include "report/contention.h"

#include <fmt/core.h>

#include <algorithm>

namespace smelt::report {

using profile::Served;

namespace {

double p99_of(const Arranged& a) { return a.served[0].response().p99; }
double others_per_s(const Arranged& a) {
  double sum = 0;
  for (size_t i = 1; i < a.served.size(); ++i) sum += a.served[i].per_s();
  return sum;
}
std::string change(double from, double to) { return format(to / from - 1, Unit::percent); }

}  // namespace

profile::SlowDown Contended::slow_down(size_t model) const {
  const Served &alone_served = alone[model].served, &together = arranged.front().served[model];
  return gpu ? profile::gpu_slow_down(alone_served, together, losses[model]) : profile::slow_down(alone_served, together);
}

std::vector<profile::StepSlowDown> Contended::step_slow_downs() const {
  return gpu ? losses.front().steps : profile::step_slow_downs(alone.front().served, arranged.front().served.front());
}

const Arranged& chosen(const Contended& c) {
  const Arranged* best = &c.arranged.front();
  const auto keeps = [&](const Arranged& a) { return c.p99_us > 0 && p99_of(a) <= c.p99_us; };
  for (const Arranged& a : c.arranged) {
    if (keeps(a) != keeps(*best) ? keeps(a) : keeps(a) ? others_per_s(a) > others_per_s(*best) : p99_of(a) < p99_of(*best))
      best = &a;
  }
  return keeps(c.arranged.front()) ? c.arranged.front() : *best;
}

Table contention_table(const Contended& c) {
  Table t{.key = "contention",
          .title = "Together, against each alone",
          .columns = {{"model", "model"},
                      {"alone_us", "alone", Unit::us},
                      {"alone_p99_us", "p99", Unit::us},
                      {"together_us", "together", Unit::us},
                      {"together_p99_us", "p99 ", Unit::us},
                      {"slower", "times", Unit::ratio},
                      {"predicted", "expected", Unit::ratio},
                      {"beside_busy", "beside busy cores", Unit::ratio},
                      {"beside_reads", "and busy memory", Unit::ratio},
                      {"cores_us", c.gpu ? "SM time" : "no core", Unit::us},
                      {"memory_us", c.gpu ? "bandwidth" : "memory, caches", Unit::us},
                      {"queueing_us", "queueing", Unit::us},
                      {"per_s", "a second", Unit::count}}};
  if (c.gpu) t.columns.insert(t.columns.end() - 2, {{"l2_us", "L2", Unit::us}, {"copies_us", "copies", Unit::us}});
  const std::vector<Served>& together = c.arranged.front().served;
  for (size_t i = 0; i < c.names.size(); ++i) {
    const Served& alone = c.alone[i].served;
    const profile::SlowDown d = c.slow_down(i);
    std::vector<Cell> row{c.names[i],
                          d.alone_us,
                          alone.response().p99,
                          d.together_us,
                          together[i].response().p99,
                          d.ratio(),
                          c.predicted[i],
                          positive(c.alone[i].beside_busy),
                          positive(c.alone[i].beside_reads),
                          d.cores_us,
                          d.memory_us};
    if (c.gpu) row.insert(row.end(), {d.l2_us, d.copies_us});
    row.insert(row.end(), {d.queueing_us, together[i].per_s()});
    t.rows.push_back(std::move(row));
  }
  t.note =
      c.gpu ? "Medians and 99th percentiles of what a request takes, its tensors on the GPU; SM time, bandwidth, L2: its kernels "
              "ran "
              "longer beside others that took these; queueing: requests and kernels waited to begin; expected: from each "
              "kernel alone"
            : "Means and 99th percentiles of what a request takes; no core: its threads were ready and waited (run-queue time); "
              "expected: from what each does alone";
  return t;
}

Table contended_step_table(const Contended& c) {
  Table t{.key = "steps",
          .title = "Steps of the first model",
          .columns = {{"name", "step"},
                      {"op", "operator"},
                      {"limiter", "limited by"},
                      {"alone_us", "alone", Unit::us},
                      {"together_us", "together", Unit::us},
                      {"slower_us", "longer", Unit::us},
                      {"cores_us", c.gpu ? "SM time" : "no core", Unit::us},
                      {"memory_us", c.gpu ? "bandwidth" : "memory, caches", Unit::us}}};
  if (c.gpu)
    t.columns.insert(t.columns.end(),
                     {{"l2_us", "L2", Unit::us}, {"copies_us", "copies", Unit::us}, {"queueing_us", "waits", Unit::us}});
  const profile::Alone& alone = c.alone.front();
  const auto steps = c.step_slow_downs();
  for (size_t i = 0; i < std::min(steps.size(), alone.steps.size()); ++i) {
    const profile::StepSlowDown& s = steps[i];
    std::vector<Cell> row{alone.steps[i].name, alone.steps[i].op, profile::name(alone.limiters[i]),
                          s.alone_us,          s.together_us,     std::max(0.0, s.together_us - s.alone_us),
                          s.cores_us,          s.memory_us};
    if (c.gpu) row.insert(row.end(), {s.l2_us, s.copies_us, s.queueing_us});
    t.rows.push_back(std::move(row));
  }
  return t;
}

Table gpu_work_table(const Contended& c) {
  Table t{.key = "work",
          .title = "What each takes of the GPU alone",
          .columns = {{"model", "model"},
                      {"step", "step"},
                      {"kernel", "kernel"},
                      {"before_us", "before it", Unit::us},
                      {"us", "takes", Unit::us},
                      {"waves", "waves", Unit::value},
                      {"share", "a wave holds", Unit::percent},
                      {"compute", "arithmetic", Unit::percent},
                      {"memory", "memory", Unit::percent},
                      {"l2", "L2", Unit::percent}}};
  for (size_t m = 0; m < c.gpu_alone.size(); ++m)
    for (const profile::GpuWork& w : c.gpu_alone[m].work)
      t.rows.push_back(
          {c.names[m], c.alone[m].steps.at(w.step).name, w.name, w.before_us, w.us, w.waves, w.share, w.compute, w.memory, w.l2});
  return t;
}

Table remedy_table(const Contended& c) {
  Table t{.key = "remedies",
          .title = "What helps the first",
          .columns = {{"arrangement", "arrangement"},
                      {"median_us", "its median", Unit::us},
                      {"p99_us", "its p99", Unit::us},
                      {"change", "p99, change", Unit::percent},
                      {"others_per_s", "others a second", Unit::count},
                      {"others_p99_us", "others' p99", Unit::us}}};
  if (c.p99_us > 0) t.columns.push_back({"keeps", "keeps the target"});
  t.columns.push_back({"how", "how"});
  const double p99 = p99_of(c.arranged.front());
  for (const Arranged& a : c.arranged) {
    double worst = 0;
    for (size_t i = 1; i < a.served.size(); ++i)
      if (!a.served[i].response_us.empty()) worst = std::max(worst, a.served[i].response().p99);
    const profile::Summary own = a.served[0].response();
    std::vector<Cell> row{a.name, own.median, own.p99, own.p99 / p99 - 1, others_per_s(a), positive(worst)};
    if (c.p99_us > 0) row.push_back(own.p99 <= c.p99_us);
    row.push_back(a.how);
    t.rows.push_back(std::move(row));
  }
  const Arranged& best = chosen(c);
  const std::string& first = c.names.front();
  if (&best == &c.arranged.front()) {
    t.note = c.p99_us > 0 && p99 <= c.p99_us ? fmt::format("{} keeps a p99 of {} as it is", first, format(c.p99_us, Unit::us))
                                             : fmt::format("None of them lowers the p99 of {}", first);
    return t;
  }
  t.note = fmt::format("{}: p99 of {} from {} to {} ({}): {}", best.name, first, format(p99, Unit::us),
                       format(p99_of(best), Unit::us), change(p99, p99_of(best)), best.how);
  if (c.p99_us > 0 && p99_of(best) > c.p99_us)
    t.note += fmt::format("\nNone keeps {}: alone its p99 is {}", format(c.p99_us, Unit::us),
                          format(c.alone.front().served.response().p99, Unit::us));
  return t;
}

std::string contention_verdict(const Contended& c) {
  const profile::SlowDown d = c.slow_down(0);
  std::string others;
  for (size_t i = 1; i < c.names.size(); ++i) others += (i > 1 ? " and " : "") + c.names[i];
  std::string text =
      fmt::format("Beside {} a request to {} takes {:.2f} times as long as alone", others, c.names.front(), d.ratio());
  const Arranged& best = chosen(c);
  if (&best == &c.arranged.front()) return text;
  return fmt::format("{}. What helps: {}, p99 from {} to {}", text, best.name, format(p99_of(c.arranged.front()), Unit::us),
                     format(p99_of(best), Unit::us));
}

}  // namespace smelt::report
