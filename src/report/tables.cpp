#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "graph/graph.h"
#include "report/report.h"
#include "run/early_launch.h"

namespace smelt::report {
namespace {

/// "warning: 3 steps run in the plain loops of their references: LSTM (2), Foo" and what `more` adds; empty without such steps.
std::string reference_warning(const std::vector<const StepInfo*>& steps, const std::string& more) {
  std::map<std::string, int> ops;
  for (const StepInfo* s : steps) ++ops[s->op];
  std::vector<std::string> names;
  for (const auto& [op, count] : ops) names.push_back(count > 1 ? fmt::format("{} ({})", op, count) : op);
  if (names.empty()) return "";
  return fmt::format("warning: {} step{} in the plain loops of {}{}: {}", steps.size(), steps.size() == 1 ? " runs" : "s run",
                     steps.size() == 1 ? "its reference" : "their references", more, joined(names));
}

bool by_reference(const StepInfo& s) { return s.tactic == "reference"; }

Cell of_roof(const profile::Profile& p, double v) { return p.roof.bytes_per_s > 0 ? Cell(v) : Cell(""); }
double of_run(const profile::Profile& p, double us) { return p.latency_us.median > 0 ? us / p.latency_us.median : NAN; }

Cell change(double before, double after) { return before > 0 ? Cell(after / before - 1) : Cell(NAN); }

}  // namespace

std::string tactic_text(const StepInfo& s) {
  return fmt::format("{}{}{}{}", s.tactic, s.config.empty() ? "" : " ", s.config, s.on_host ? " (on the host)" : "");
}

std::string reference_warning(const std::vector<StepInfo>& steps) {
  std::vector<const StepInfo*> found;
  for (const StepInfo& s : steps)
    if (by_reference(s)) found.push_back(&s);
  return reference_warning(found, "");
}

std::string reference_warning(const profile::Profile& p) {
  std::vector<const StepInfo*> found;
  double share = 0;
  for (const profile::StepRow& r : p.steps)
    if (by_reference(r.step)) found.push_back(&r.step), share += r.share;
  for (const profile::InnerRow& r : p.inside)
    if (by_reference(r.row.step) && p.latency_us.median > 0) found.push_back(&r.row.step), share += r.us / p.latency_us.median;
  return reference_warning(found, fmt::format(", {} of the steps' time", format(share, Unit::percent)));
}

Table step_table(const profile::Profile& p) {
  Table t{.key = "steps",
          .title = "Time per step",
          .columns = {{"name", "step"},
                      {"op", "operator"},
                      {"self_us", "self", Unit::us},
                      {"iqr_us", "± IQR", Unit::us},
                      {"share", "share", Unit::percent},
                      {"bytes", "bytes", Unit::bytes},
                      {"flops", "FLOPs", Unit::flops},
                      {"flops_per_byte", "FLOPs a byte", Unit::ratio},
                      {"roof_share", "of roof", Unit::percent},
                      {"at_stake_us", "at stake", Unit::us},
                      {"limiter", "limited by"},
                      {"tactic", "tactic"},
                      {"problem", "problem"},
                      {"sources", "stands for"},
                      {"because", "because", Unit::text, true}}};
  for (const profile::StepRow& r : p.steps)
    t.rows.push_back({r.step.name, r.step.op, r.us.median, r.us.iqr, r.share, r.step.bytes, r.step.flops, positive(r.intensity()),
                      of_roof(p, r.roof_share), of_roof(p, r.at_stake_us), profile::name(r.limiter), tactic_text(r.step),
                      r.step.problem, r.step.sources, r.because});
  const double missing = p.unattributed();
  t.note = fmt::format("{} steps take {}, gaps between them {}, together {:.1f}% {} than one run: {} (median of {})",
                       p.steps.size(), format(p.steps_us, Unit::us), format(p.gaps_us, Unit::us), 100 * std::abs(missing),
                       missing > 0 ? "less" : "more", format(p.latency_us.median, Unit::us), p.latency_us.count);
  if (const std::string warning = reference_warning(p); !warning.empty()) t.note += "\n" + warning;
  return t;
}

Table scope_table(const profile::Profile& p) {
  Table t{.key = "scopes",
          .title = "Time per module",
          .columns = {{"path", "module"},
                      {"self_us", "self", Unit::us},
                      {"total_us", "total", Unit::us},
                      {"share", "share", Unit::percent},
                      {"roof_share", "of roof", Unit::percent},
                      {"calls", "calls", Unit::count},
                      {"bytes", "bytes", Unit::bytes},
                      {"flops", "FLOPs", Unit::flops}}};
  for (const profile::ScopeRow& r : p.scopes)
    t.rows.push_back(
        {module_cell(r.path, r.depth), r.self_us, r.total_us, r.share, of_roof(p, r.roof_share), r.calls, r.bytes, r.flops});
  return t;
}

Table node_table(const profile::Profile& p) {
  Table t{.key = "nodes",
          .title = "Time per node of the model",
          .columns = {{"name", "node"},
                      {"op", "operator"},
                      {"us", "part of its step", Unit::us},
                      {"bytes", "bytes", Unit::bytes},
                      {"flops", "FLOPs", Unit::flops},
                      {"flops_per_byte", "FLOPs a byte", Unit::ratio},
                      {"floor_us", "at the roof", Unit::us},
                      {"step_roof_share", "step of roof", Unit::percent},
                      {"limiter", "limited by"},
                      {"step", "step"}}};
  for (const profile::NodeRow& r : p.nodes)
    t.rows.push_back({r.name, r.op, r.us, r.bytes, r.flops, positive(r.intensity()), of_roof(p, r.floor_us),
                      of_roof(p, r.step_roof_share), profile::name(r.limiter), r.step});
  t.note = "A step's time is shared out among its nodes by what each would take at the roof by itself";
  return t;
}

Table inner_table(const profile::Profile& p) {
  Table t{.key = "inside",
          .title = "Steps inside of If, Loop and Scan",
          .columns = {{"inside", "inside of"},
                      {"name", "step"},
                      {"op", "operator"},
                      {"calls", "calls a run", Unit::value},
                      {"us", "time a run", Unit::us},
                      {"call_us", "a call", Unit::us},
                      {"share", "of a run", Unit::percent},
                      {"bytes", "bytes", Unit::bytes},
                      {"flops", "FLOPs", Unit::flops},
                      {"roof_share", "of roof", Unit::percent},
                      {"limiter", "limited by"},
                      {"tactic", "tactic"}}};
  for (const profile::InnerRow& r : p.inside)
    t.rows.push_back({fmt::format("{}", fmt::join(r.path, " / ")), r.row.step.name, r.row.step.op, r.calls, r.us, r.row.us.median,
                      of_run(p, r.us), r.row.step.bytes, r.row.step.flops, of_roof(p, r.row.roof_share),
                      profile::name(r.row.limiter), tactic_text(r.row.step)});
  t.note = "A step's time holds that of what is inside of it";
  return t;
}

Table advice_table(const profile::Profile& p) {
  Table t{.key = "advice",
          .title = "Why slow, what next",
          .columns = {{"what", "what to do"},
                      {"us", "may save", Unit::us},
                      {"share", "of a run", Unit::percent},
                      {"why", "why"},
                      {"from", "known from"},
                      {"steps", "where"},
                      {"option", "followed by"},
                      {"tried_us", "saved when tried", Unit::us}}};
  for (const profile::Advice& a : p.advice)
    t.rows.push_back({a.what, a.us, of_run(p, a.us), a.why, a.from, a.steps, a.option, a.tried_us.value_or(std::nan(""))});
  t.note = "What two of them save may be the same time";
  return t;
}

std::string advice_text(const profile::Profile& p) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(p.advice.size(), 5); ++i) {
    const profile::Advice& a = p.advice[i];
    text += fmt::format("{}\n  {}. {}{} ({}){}: {}\n     {} ({})", text.empty() ? "Why slow, what next" : "", i + 1,
                        a.from == "roof" ? "at most " : "", format(a.us, Unit::us), format(of_run(p, a.us), Unit::percent),
                        a.tried_us ? fmt::format(", {} when tried", format(*a.tried_us, Unit::us)) : "", a.what, a.why, a.from);
    if (!a.steps.empty()) text += "\n     " + joined(a.steps, 3);
  }
  return text;
}

/// "Others use the GPU: busy for 38% of the time while this did nothing (pid 77: 38%, 1 GiB); …".
std::string gpu_others_text(const profile::OtherWork& o) {
  std::string who;
  for (const profile::GpuUse::Process& p : o.gpu.processes) {
    who += fmt::format("{}process {}: {:.0f}%", who.empty() ? " (" : "; ", p.pid, p.busy_percent);
    if (p.memory_bytes > 0) who += ", " + format(static_cast<double>(p.memory_bytes), Unit::bytes);
  }
  std::string text = fmt::format("Others use the GPU: busy for {}% of the time while this did nothing{}{}", o.gpu.busy_percent,
                                 who, who.empty() ? "" : ")");
  if (o.disturbed == 0) return text + "; no run took longer for it";
  return text + fmt::format("; {} of {} runs took longer, which cost a run {} (beyond its steps and gaps)", o.disturbed, o.runs,
                            format(o.cost_us, Unit::us));
}

std::string others_text(const profile::Profile& p) {
  const profile::OtherWork& o = p.others;
  if (o.gpu.busy_percent > 0 || !o.gpu.processes.empty()) return gpu_others_text(o);
  if (o.disturbed == 0) return "";
  std::string text = fmt::format("Other work took cores during {} of {} measurements: threads waited {} for one", o.disturbed,
                                 o.runs, format(o.waited_us, Unit::us));
  if (o.stolen_us > 0) text += fmt::format(", the hypervisor took {}", format(o.stolen_us, Unit::us));
  if (o.throttled_us > 0) text += fmt::format(", a quota stopped them for {}", format(o.throttled_us, Unit::us));
  return text + fmt::format("; it cost a run {} ({})", format(o.cost_us, Unit::us),
                            o.cost_measured ? "against those that were left alone" : "by the time waited");
}

Table memory_table(const profile::Profile& p) {
  Table t{.key = "memory",
          .title = "Memory",
          .columns = {{"name", "value"}, {"kind", "kind"}, {"shape", "shape"}, {"bytes", "bytes", Unit::bytes}}};
  for (const profile::MemoryRow& r : p.memory) t.rows.push_back({r.name, r.kind, r.shape, r.bytes});
  const auto size = [](int64_t bytes) { return format(static_cast<double>(bytes), Unit::bytes); };
  t.note = fmt::format("arena {}, weights {}, peak of the process {}", size(p.footprint.arena), size(p.footprint.weights),
                       size(p.peak_host_bytes));
  const auto at = std::ranges::find(p.steps, p.peak_bytes, [&](const profile::StepRow& r) { return p.held(r); });
  if (at == p.steps.end()) return t;
  const StepMemory& most = at->step.memory;
  t.note += fmt::format(
      "\nat most {} held at a time, in step {}: weights, {} of inputs and outputs, {} of activations, {} of "
      "workspace",
      size(p.peak_bytes), p.peak_step, size(most.bound), size(most.activations), size(most.workspace));
  return t;
}

Table copy_table(const profile::Profile& p) {
  Table t{.key = "copies",
          .title = "Copies of tensors in the host's memory",
          .columns = {{"name", "of"},
                      {"way", "way"},
                      {"bytes", "bytes", Unit::bytes},
                      {"us", "time", Unit::us},
                      {"iqr_us", "± IQR", Unit::us},
                      {"bytes_per_s", "rate", Unit::bytes_per_s}}};
  double sum = 0;
  for (const profile::CopyRow& c : p.copies) {
    const double rate = c.us.median > 0 ? static_cast<double>(c.bytes) / c.us.median * 1e6 : NAN;
    t.rows.push_back({c.name, smelt::name(c.way), c.bytes, c.us.median, c.us.iqr, rate});
    sum += c.us.median;
  }
  t.note = fmt::format(
      "together {}; from and to the host's memory a run takes {} by the host's clock (median of {}), from and "
      "to the device's {}",
      format(sum, Unit::us), format(p.host_latency_us.median, Unit::us), p.host_latency_us.count,
      format(p.latency_us.median, Unit::us));
  return t;
}

Table plan_table(const Plan& plan, double build_s) {
  const BuildInfo b = plan.build_info();
  Table t{.key = "plan",
          .title = "Plan",
          .columns = {{"nodes", "nodes", Unit::count},
                      {"build_s", "build", Unit::seconds},
                      {"tuning_level", "tuning level", Unit::count},
                      {"problems", "problems", Unit::count},
                      {"measured", "measured", Unit::count},
                      {"cached", "from the cache", Unit::count},
                      {"tuning_s", "measuring", Unit::seconds},
                      {"clocks", "clocks"},
                      {"early_launch", "kernels begin early"}}};
  t.rows.push_back({static_cast<int64_t>(plan.graph().live_nodes()), build_s, b.tuning_level, b.problems, b.measured, b.cached,
                    b.tuning_s, clocks_text(b.clocks), early_launch_text(run::early_launch_of(plan))});
  return t;
}

std::string early_launch_text(const plan::EarlyLaunch& e) {
  if (e.by == plan::EarlyLaunch::By::nothing) return e.why_not.empty() ? "" : "no: " + e.why_not;
  std::string text = fmt::format("{}, by {}", e.on ? "yes" : "no", plan::text_of(e.by));
  if (e.late_us > 0)
    text += fmt::format(": a run takes {} so, {} otherwise", format(e.early_us, Unit::us), format(e.late_us, Unit::us));
  return text;
}

Table early_launch_table(const Plan& plan) {
  Table t{
      .key = "early_launch",
      .title = "Kernels that begin before the one before them has ended",
      .columns = {{"on", "do"}, {"by", "decided by"}, {"late_us", "a run without", Unit::us}, {"early_us", "with", Unit::us}}};
  const plan::EarlyLaunch e = run::early_launch_of(plan);
  if (e.by != plan::EarlyLaunch::By::nothing || !e.why_not.empty())
    t.rows.push_back(
        {e.on ? "yes" : "no", e.why_not.empty() ? std::string(plan::text_of(e.by)) : e.why_not, e.late_us, e.early_us});
  return t;
}

std::string clocks_text(const ClocksSeen& c) {
  if (c.highest_mhz == 0) return "";
  std::string text = c.lowest_mhz < c.highest_mhz ? fmt::format("{} to ", c.lowest_mhz) : "";
  text += std::to_string(c.highest_mhz);
  text += c.most_mhz > 0 ? fmt::format(" of {} MHz", c.most_mhz) : " MHz";
  return c.slowed_by.empty() ? text : fmt::format("{}, held down by {}", text, fmt::join(c.slowed_by, ", "));
}

Table build_table(const Plan& plan) {
  Table t{.key = "build", .title = "Build", .columns = {{"stage", "stage"}, {"seconds", "time", Unit::seconds}}};
  for (const BuildStage& s : plan.build_info().stages) t.rows.push_back({s.name, s.seconds});
  return t;
}

std::string stages_text(const Plan& plan) {
  std::vector<std::string> stages;
  for (const BuildStage& s : plan.build_info().stages)
    if (s.seconds >= 1e-3) stages.push_back(fmt::format("{} {}", s.name, format(s.seconds, Unit::seconds)));
  return fmt::format("{}", fmt::join(stages, ", "));
}

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
