// Where a profile's time and memory go.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/report.h"

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

/// What the steps take together against a run. Where reading the clock between steps takes a part of it that shows, it says that too.
std::string sum_text(const profile::Profile& p) {
  constexpr double shows = 0.01;
  const double run = p.latency_us.median, missing = p.unattributed();
  std::string text = fmt::format(
      "{} steps take {}, gaps between them {}, together {} ({:.1f}%) {} than one run: {} (median of {})", p.steps.size(),
      format(p.steps_us, Unit::us), format(p.gaps_us, Unit::us), format(std::abs(missing) * run, Unit::us),
      100 * std::abs(missing), missing > 0 ? "less" : "more", format(run, Unit::us), p.latency_us.count);
  if (p.clock_us * static_cast<double>(p.steps.size()) > shows * run)
    text += fmt::format("\nSteps are timed one by one; the {:.0f} ns that reading the clock takes each time are not among theirs",
                        1e3 * p.clock_us);
  return text;
}

Cell of_roof(const profile::Profile& p, double v) { return p.roof.bytes_per_s > 0 ? Cell(v) : Cell(""); }

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
  t.note = sum_text(p);
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
  if (std::ranges::any_of(p.steps, [](const profile::StepRow& r) {
        return std::ranges::any_of(r.step.scopes, [&](const auto& scope) { return scope != r.step.scopes.front(); });
      }))
    t.note = "A step that stands for nodes of several modules counts for the one that holds them all";
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
                      p.of_run(r.us), r.row.step.bytes, r.row.step.flops, of_roof(p, r.row.roof_share),
                      profile::name(r.row.limiter), tactic_text(r.row.step)});
  t.note = "A step's time holds that of what is inside of it";
  return t;
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

}  // namespace smelt::report
