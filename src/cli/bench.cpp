#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/busy.h"
#include "cli/common.h"

namespace smelt::cli {
namespace {

using Json = nlohmann::ordered_json;

// trtexec's --exportTimes: one object a run. On a CPU nothing is enqueued or copied, so those spans are empty.
std::string times_json(const profile::Side& side) {
  Json rows = Json::array();
  for (const profile::Sample& s : side.trace) {
    const double ms = s.end_ms - s.start_ms;
    rows.push_back({{"startEnqMs", s.start_ms},
                    {"endEnqMs", s.start_ms},
                    {"startH2dMs", s.start_ms},
                    {"endH2dMs", s.start_ms},
                    {"startComputeMs", s.start_ms},
                    {"endComputeMs", s.end_ms},
                    {"startD2hMs", s.end_ms},
                    {"endD2hMs", s.end_ms},
                    {"h2dMs", 0.0},
                    {"computeMs", ms},
                    {"d2hMs", 0.0},
                    {"latencyMs", ms}});
  }
  return rows.dump(1) + "\n";
}

// trtexec's --exportProfile: the number of runs, then one object a layer.
std::string profile_json(const profile::Profile& p) {
  Json rows = Json::array();
  const int count = p.steps.empty() ? 0 : p.steps.front().us.count;
  rows.push_back({{"count", count}});
  for (const profile::StepRow& r : p.steps)
    rows.push_back({{"name", r.step.name},
                    {"timeMs", r.us.mean * count / 1e3},
                    {"averageMs", r.us.mean / 1e3},
                    {"medianMs", r.us.median / 1e3},
                    {"percentage", r.share * 100}});
  return rows.dump(1) + "\n";
}

report::Table percentile_table(const profile::BenchResult& b, const std::vector<double>& percentiles) {
  report::Table t{
      .key = "percentiles",
      .title = "Latency",
      .columns = {{"plan", "plan"}, {"mean_ms", "mean", report::Unit::ms}, {"median_ms", "median", report::Unit::ms}}};
  for (double p : percentiles) t.columns.push_back({fmt::format("p{:g}_ms", p), fmt::format("p{:g}", p), report::Unit::ms});
  t.columns.push_back({"iqr_ms", "± IQR", report::Unit::ms});
  t.columns.push_back({"runs", "runs", report::Unit::count});
  for (const profile::Side* s : {&b.before, &b.after}) {
    std::vector<report::Cell> row{s->name, s->ms.mean, s->ms.median};
    for (double p : percentiles) row.push_back(profile::percentile(s->samples_ms, p / 100));
    row.push_back(s->ms.iqr);
    row.push_back(s->ms.count);
    t.rows.push_back(row);
  }
  return t;
}

}  // namespace

Action add_bench(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::string against, report, times, layers;
    profile::BenchOptions bench;
    std::vector<double> percentiles{90, 95, 99};
    bool require = false;
  };
  auto a = std::make_shared<Arguments>();
  app.add_option("--against", a->against, "Another model or plan as the 'before' side; without it, the model unfused")
      ->type_name("FILE");
  app.add_flag("--require-speedup", a->require, "Exit with 5 unless the speed-up's 95% interval is above 1");
  app.add_option("--report", a->report, "Write an HTML report: both profiles, graphs, the ledger, the errors")->type_name("FILE");
  app.add_option("--iterations", a->bench.iterations, "Runs of each side, at least (10)")
      ->check(in_range(1, 1 << 30))
      ->type_name("N");
  app.add_option("--warmUp", a->bench.warmup_ms, "Warm-up of each side (200)")->check(in_range(0.0, 1e9))->type_name("MS");
  app.add_option("--duration", a->bench.duration_s, "Timed at least this long (3)")->check(in_range(0.0, 1e6))->type_name("S");
  app.add_option("--percentile", a->percentiles, "Percentiles to print (90,95,99)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(in_range(0.0, 100.0))
      ->type_name("P");
  app.add_option("--exportTimes", a->times, "Write each run of the optimised side as trtexec's JSON")->type_name("FILE");
  app.add_option("--exportProfile", a->layers, "Write the optimised side's layer times as trtexec's JSON")->type_name("FILE");
  add_model_options(app, *a);
  add_input_options(app, *a);
  return [a] {
    const report::Subject subject = a->subject();
    if (!a->against.empty()) MappedFile::open(a->against);  // a name that is wrong is said before the first is built, not after
    note("building both plans, then timing them in turn");
    stage("building both plans");
    profile::BenchOptions timing = a->bench;
    timing.progress = [timed = false](double part) mutable {
      if (!std::exchange(timed, true)) stage("timing both plans in turn");
      stage_part(part);
    };
    report::Comparison c = report::compare_speed(subject, a->against, timing);
    const profile::BenchResult& b = c.bench;
    report::Report r;
    if (!a->report.empty() || !a->layers.empty()) {
      note("profiling both sides");
      stage("profiling both sides, and drawing them");
      r = report::full_report(subject, c);
      if (!r.drawing_note.empty()) note(r.drawing_note);
    } else {
      r = report::bare_report(subject);
      r.bench = b;
      if (!a->against.empty() && b.ratio.slower()) stage("profiling both, to say which nodes take longer");
      r.slower = report::why_slower(subject, c);
    }
    r.fused = report::fused_table(c.after.execution->steps());
    if (a->as_json) {
      print_line(report::json(r));
    } else {
      report::Table fused = *r.fused;
      fused.keep_top(20);
      std::vector<report::Table> tables{percentile_table(b, a->percentiles), report::qa_table(b),
                                        report::difference_table(r.differences)};
      if (r.slower) tables.push_back(*r.slower), tables.back().keep_top(20);
      tables.push_back(fused);
      print_tables(tables);
    }
    if (!a->times.empty()) write_text(a->times, times_json(b.after));
    if (!a->layers.empty()) write_text(a->layers, profile_json(*r.after));
    if (!a->report.empty()) write_text(a->report, report::html(r)), note(fmt::format("wrote {}", a->report));
    if (a->require && !b.ratio.faster()) {
      note("smelt bench: the speed-up is not proven: " + report::verdict(b));
      return static_cast<int>(ExitCode::not_proven);
    }
    return 0;
  };
}

}  // namespace smelt::cli
