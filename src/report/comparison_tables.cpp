// Two plans, timed in turn, and how far their outputs lie apart.
#include <fmt/core.h>

#include "report/report.h"

namespace smelt::report {
namespace {

Cell change(double before, double after) { return before > 0 ? Cell(after / before - 1) : Cell(NAN); }

}  // namespace

Table qa_table(const profile::BenchResult& b) {
  Table t{.key = "qa",
          .title = "Before and after",
          .columns = {{"measure", ""},
                      {"before", b.before.name, Unit::text},
                      {"after", b.after.name, Unit::text},
                      {"change", "difference", Unit::percent}}};
  const auto row = [&](const std::string& what, double before, double after, Unit unit) {
    t.rows.push_back({what, format(before, unit), format(after, unit), change(before, after)});
  };
  row("average", b.before.ms.mean, b.after.ms.mean, Unit::ms);
  row("median", b.before.ms.median, b.after.ms.median, Unit::ms);
  row("p90", b.before.ms.p90, b.after.ms.p90, Unit::ms);
  row("p99", b.before.ms.p99, b.after.ms.p99, Unit::ms);
  row("host memory", static_cast<double>(b.before.host_bytes), static_cast<double>(b.after.host_bytes), Unit::bytes);
  row("device memory", static_cast<double>(b.before.device_bytes), static_cast<double>(b.after.device_bytes), Unit::bytes);
  // The sides are built one after the other in one process, and the second finds what the first measured: no difference is given.
  t.rows.push_back({fmt::format("build, tuning level {}", b.after.build.tuning_level), format(b.before.build_s, Unit::seconds),
                    format(b.after.build_s, Unit::seconds), "–"});
  t.note = verdict(b);
  return t;
}

Table difference_table(const std::vector<profile::Difference>& d) {
  Table t{.key = "errors",
          .title = "Error per output",
          .columns = {{"output", "output"},
                      {"count", "elements", Unit::count},
                      {"max_abs", "max", Unit::error},
                      {"mean_abs", "mean", Unit::error},
                      {"max_rel", "max relative", Unit::error},
                      {"rms_rel", "rms relative", Unit::error},
                      {"cosine_error", "1 - cosine", Unit::error},
                      {"different", "different", Unit::count},
                      {"nonfinite", "NaN/inf", Unit::count}}};
  for (const profile::Difference& x : d) {
    if (x.comparable)
      t.rows.push_back({x.name, x.count, x.max_abs, x.mean_abs, x.max_rel, x.rms_rel, x.cosine_error, x.different, x.nonfinite});
    else
      t.rows.push_back({x.name, x.why_not, "", "", "", "", "", "", ""});
  }
  return t;
}

std::string verdict(const profile::BenchResult& b) {
  const auto interval = fmt::format("95% interval {:.2f} to {:.2f}, {} runs each, interleaved", 1 / b.ratio.high, 1 / b.ratio.low,
                                    b.after.ms.count);
  const auto &before = b.before.name, &after = b.after.name;
  if (b.ratio.faster()) return fmt::format("{} is {:.2f}x as fast as {} ({})", after, b.speedup(), before, interval);
  if (b.ratio.slower()) return fmt::format("{} is slower than {}: {:.2f}x its speed ({})", after, before, b.speedup(), interval);
  if (!b.ratio.enough())
    return fmt::format("too few runs to compare {} and {}: {:.2f}x ({} runs each; {} are the fewest that can prove anything)",
                       after, before, b.speedup(), b.ratio.pairs, profile::Ratio::fewest_pairs);
  return fmt::format("no difference proven between {} and {}: {:.2f}x ({})", after, before, b.speedup(), interval);
}

}  // namespace smelt::report
