#include <algorithm>
#include <map>

#include "base/error.h"
#include "report/report.h"

namespace smelt::report {
namespace {

std::string joined(const std::vector<std::string>& v, size_t most = 6) {
  std::string out;
  for (size_t i = 0; i < v.size() && i < most; ++i) out += (i ? ", " : "") + v[i];
  if (v.size() > most) out += fmt::format(", … ({})", v.size());
  return out;
}

Cell change(double before, double after) { return before > 0 ? Cell(after / before - 1) : Cell("–"); }

}  // namespace

Table step_table(const profile::Profile& p) {
  Table t{.key = "steps", .title = "Time per step",
          .columns = {{"name", "step"}, {"op", "operator"}, {"self_us", "self", Unit::us}, {"iqr_us", "± IQR", Unit::us}, {"share", "share", Unit::percent},
                      {"bytes", "bytes", Unit::bytes}, {"flops", "FLOPs", Unit::flops}, {"roof_share", "of roof", Unit::percent}, {"limiter", "limited by"},
                      {"tactic", "tactic"}, {"problem", "problem"}, {"sources", "stands for"}}};
  for (const profile::StepRow& r : p.steps)
    t.rows.push_back({r.step.name, r.step.op, r.us.median, r.us.iqr, r.share, r.step.bytes, r.step.flops,
                      p.roof.bytes_per_s > 0 ? Cell(r.roof_share) : Cell("–"), std::string(profile::name(r.limiter)),
                      r.step.config.empty() ? r.step.tactic : r.step.tactic + " " + r.step.config, r.step.problem, joined(r.step.sources)});
  t.note = fmt::format("{} steps take {}, gaps between them {}; one run takes {} (median of {})", p.steps.size(), format(p.steps_us, Unit::us),
                       format(p.gaps_us, Unit::us), format(p.latency_us.median, Unit::us), p.latency_us.count);
  return t;
}

Table scope_table(const profile::Profile& p) {
  Table t{.key = "scopes", .title = "Time per module",
          .columns = {{"path", "module"}, {"self_us", "self", Unit::us}, {"total_us", "total", Unit::us}, {"share", "share", Unit::percent},
                      {"calls", "calls", Unit::count}, {"bytes", "bytes", Unit::bytes}, {"flops", "FLOPs", Unit::flops}}};
  for (const profile::ScopeRow& r : p.scopes)
    t.rows.push_back({std::string(static_cast<size_t>(2 * r.depth), ' ') + (r.path.empty() ? "(model)" : r.path), r.self_us, r.total_us, r.share, r.calls, r.bytes, r.flops});
  return t;
}

Table memory_table(const profile::Profile& p) {
  Table t{.key = "memory", .title = "Memory", .columns = {{"name", "value"}, {"kind", "kind"}, {"shape", "shape"}, {"bytes", "bytes", Unit::bytes}}};
  for (const profile::MemoryRow& r : p.memory) t.rows.push_back({r.name, r.kind, r.shape, r.bytes});
  t.note = fmt::format("arena {}, weights {}, peak of the process {}", format(static_cast<double>(p.footprint.arena), Unit::bytes),
                       format(static_cast<double>(p.footprint.weights), Unit::bytes), format(static_cast<double>(p.peak_host_bytes), Unit::bytes));
  return t;
}

Table qa_table(const profile::BenchResult& b) {
  Table t{.key = "qa", .title = "Before and after", .columns = {{"measure", ""}, {"before", b.before.name, Unit::text}, {"after", b.after.name, Unit::text}, {"change", "difference", Unit::percent}}};
  const auto row = [&](const char* what, double before, double after, Unit unit) { t.rows.push_back({what, format(before, unit), format(after, unit), change(before, after)}); };
  row("average", b.before.ms.mean, b.after.ms.mean, Unit::ms);
  row("median", b.before.ms.median, b.after.ms.median, Unit::ms);
  row("p90", b.before.ms.p90, b.after.ms.p90, Unit::ms);
  row("p99", b.before.ms.p99, b.after.ms.p99, Unit::ms);
  row("host memory", static_cast<double>(b.before.host_bytes), static_cast<double>(b.after.host_bytes), Unit::bytes);
  row("device memory", static_cast<double>(b.before.device_bytes), static_cast<double>(b.after.device_bytes), Unit::bytes);
  row("build", b.before.build_s, b.after.build_s, Unit::seconds);
  t.note = verdict(b);
  return t;
}

Table difference_table(const std::vector<profile::Difference>& d) {
  Table t{.key = "errors", .title = "Error per output",
          .columns = {{"output", "output"}, {"count", "elements", Unit::count}, {"max_abs", "max", Unit::error}, {"mean_abs", "mean", Unit::error},
                      {"max_rel", "max relative", Unit::error}, {"rms_rel", "rms relative", Unit::error}, {"cosine_error", "1 - cosine", Unit::error},
                      {"different", "different", Unit::count}, {"nonfinite", "NaN/inf", Unit::count}}};
  for (const profile::Difference& x : d) {
    if (x.comparable) t.rows.push_back({x.name, x.count, x.max_abs, x.mean_abs, x.max_rel, x.rms_rel, x.cosine_error, x.different, x.nonfinite});
    else t.rows.push_back({x.name, x.why_not, "", "", "", "", "", "", ""});
  }
  return t;
}

Table ledger_table(const fuse::Ledger& ledger, bool matched_only) {
  Table t{.key = "ledger", .title = "What was tried", .columns = {{"rewrite", "rewrite"}, {"result", "result"}, {"reason", "reason"}, {"blocker", "blocked by"}, {"saved_us", "saves", Unit::us}, {"detail", "detail"}, {"nodes", "nodes"}}};
  for (const fuse::Entry& e : ledger) {
    if (matched_only && !e.matched) continue;
    t.rows.push_back({e.rewrite, e.matched ? "matched" : "rejected", e.reason, e.blocker, e.saved_us > 0 ? Cell(e.saved_us) : Cell(""), e.detail, joined(e.nodes)});
  }
  return t;
}

Table ledger_summary(const fuse::Ledger& ledger) {
  Table t{.key = "rewrites", .title = "Rewrites", .columns = {{"rewrite", "rewrite"}, {"matched", "matched", Unit::count}, {"rejected", "rejected", Unit::count}, {"reasons", "reasons"}}};
  std::vector<std::string> order;
  struct Counts {
    int64_t matched = 0, rejected = 0;
    std::map<std::string, int> reasons;
  };
  std::map<std::string, Counts> counts;
  for (const fuse::Entry& e : ledger) {
    if (!counts.contains(e.rewrite)) order.push_back(e.rewrite);
    Counts& c = counts[e.rewrite];
    if (e.matched) ++c.matched;
    else ++c.rejected, ++c.reasons[e.reason];
  }
  for (const std::string& rewrite : order) {
    const Counts& c = counts[rewrite];
    std::vector<std::string> reasons;
    for (const auto& [reason, n] : c.reasons) reasons.push_back(fmt::format("{} {}", n, reason));
    t.rows.push_back({rewrite, c.matched, c.rejected, joined(reasons)});
  }
  return t;
}

std::string verdict(const profile::BenchResult& b) {
  const auto interval = fmt::format("95% interval {:.2f} to {:.2f}, {} runs each, interleaved", 1 / b.ratio.high, 1 / b.ratio.low, b.after.ms.count);
  if (b.ratio.faster()) return fmt::format("{} is {:.2f}x as fast as {} ({})", b.after.name, b.speedup(), b.before.name, interval);
  if (b.ratio.slower()) return fmt::format("{} is slower than {}: {:.2f}x its speed ({})", b.after.name, b.before.name, b.speedup(), interval);
  return fmt::format("no difference proven between {} and {}: {:.2f}x ({})", b.after.name, b.before.name, b.speedup(), interval);
}

}  // namespace smelt::report
