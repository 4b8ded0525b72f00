#include <fmt/core.h>

#include <charconv>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "cli/busy.h"
#include "cli/common.h"
#include "cli/contend.h"
#include "cli/nsight_compute.h"
#include "cli/watch.h"
#include "graph/graph.h"
#include "import/export.h"
#include "import/import.h"
#include "profile/counted_kernels.h"
#include "report/timings.h"
#include "report/what_if.h"

namespace smelt::cli {
namespace {

void write_folder(const std::filesystem::path& folder, const report::Report& r) {
  make_folders(folder);
  write_text(folder / "profile.json", report::json(r));
  write_text(folder / "trace.json", report::chrome_trace(*r.after));
  write_text(folder / "report.html", report::html(r));
  if (!r.svg_after.empty()) write_text(folder / "graph.svg", r.svg_after);
  note(fmt::format("wrote report.html, profile.json, trace.json{} into {}", r.svg_after.empty() ? "" : ", graph.svg",
                   folder.string()));
}

/// Puts the steps in the order that the step table has sorted by `column`, and keeps the first `top`.
void arrange(profile::Profile& p, const std::string& column, size_t top) {
  report::Table t = report::step_table(p);
  for (size_t i = 0; i < t.rows.size(); ++i) t.rows[i].push_back(static_cast<int64_t>(i));
  if (column != "order") t.sort_by(column);
  std::vector<profile::StepRow> steps;
  std::vector<StepTime> timeline;
  for (const auto& row : t.rows) {
    const auto i = static_cast<size_t>(row.back().number);
    if (steps.size() == top) break;
    steps.push_back(p.steps[i]);
    if (i < p.timeline.size()) timeline.push_back(p.timeline[i]);
  }
  p.steps = std::move(steps), p.timeline = std::move(timeline);
}

/// The tables of a profile that another tool wrote, or smelt before.
int show_file(const std::string& path, const std::string& layers, const std::string& sort_by, size_t top, bool as_json,
              const std::string& page) {
  stage("reading " + path);
  const profile::Timings t = profile::read_timings(path, layers);
  std::vector<report::Table> tables{report::node_table(t), report::scope_table(t)};
  if (sort_by != "order") tables[0].sort_by(sort_by);
  if (tables[1].rows.size() <= 1) tables.pop_back();
  const report::Report r = report::report_of(t);
  if (as_json) {
    tables.push_back(report::advice_table(*r.after));
    print_line(report::document_json("smelt.timings", tables));
  } else {
    for (report::Table& table : tables) table.keep_top(top);
    print_tables(tables);
    if (const std::string text = report::advice_text(*r.after); !text.empty()) print_line("\n" + text);
  }
  if (!page.empty()) write_text(page, report::html(r));
  return 0;
}

/// "pid:1234" → 1234; nothing for a file.
std::optional<int> process_of(const std::string& text) {
  constexpr std::string_view head = "pid:";
  int pid = 0;
  if (!text.starts_with(head)) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + head.size(), text.data() + text.size(), pid);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(pid) : std::nullopt;
}

/// Whether the file was written by optimize.
bool is_plan(const std::string& path) {
  ImportOptions wanted;
  wanted.structure_only = true;
  return import_model(path, wanted).model.metadata.contains(plan_version_key);
}

std::vector<profile::CountedBy> counters_of(const ModelArguments& m, const std::string& who, bool optimized) {
  std::vector<profile::CountedBy> ways;
  if (who == "auto" || who == "cupti") ways.push_back(profile::by_cupti());
  if (who == "auto" || who == "ncu") ways.push_back(by_nsight_compute(m, optimized));
  return ways;
}

}  // namespace

Action add_profile(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::string sort_by = "self_us", trace, report, out, layers, counters = "auto";
    Contention contention;
    int top = 25, iterations = 20;
    bool optimized = false, print_only = false, watch = false, try_it = false;
    std::optional<bool> foresee;
  };
  auto a = std::make_shared<Arguments>();
  app.add_flag("--optimized", a->optimized,
               "Profile the optimised plan instead of the model as it stands; a plan's file is profiled as it runs");
  app.add_option("--sort-by", a->sort_by,
                 "A column of the step table: self_us (default), bytes, flops, share, roof_share, name, op …; order: as they run")
      ->type_name("COLUMN");
  app.add_option("--top", a->top, "Rows of each table (25); 0 all")->check(in_range(0, 1 << 30))->type_name("N");
  app.add_option("--iterations", a->iterations, "Runs timed (20)")->check(in_range(1, 1 << 30))->type_name("N");
  app.add_option("--trace", a->trace, "Write a Chrome/Perfetto trace (JSON)")->type_name("FILE");
  app.add_option("--report", a->report, "Write an HTML report")->type_name("FILE");
  app.add_option("--out", a->out, "Write graph.svg, profile.json, trace.json and report.html into this folder")->type_name("DIR");
  app.add_flag("--print-only", a->print_only, "Write no file, whatever else is given");
  app.add_option("--counters", a->counters,
                 "Who reads a GPU's counters, which then say what limits each step: auto (default: CUPTI, else Nsight Compute), "
                 "cupti, ncu, none")
      ->check(CLI::IsMember({"auto", "cupti", "ncu", "none"}))
      ->type_name("WHO");
  app.add_flag(
      "--what-if,!--no-what-if", a->foresee,
      "Build the plans that options of the advice make, and promise what their kernels took when they were tuned, or what a "
      "run takes (on a GPU the default from --tuning-level 1 on)");
  app.add_flag("--try", a->try_it, "Run these plans too, in turn with this one, and say what each saved");
  app.add_option("--layers", a->layers, "What trtexec --exportLayerInfo wrote, beside the profile that it wrote")
      ->type_name("FILE");
  app.add_option("--with", a->contention.with,
                 "Another model or plan that is served beside it: how much each slows the other down, what of, and what helps")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_option("--rate", a->contention.rate,
                 "With --with: requests a second to each model; one after the other where not given")
      ->check(in_range(0.001, 1e6))
      ->type_name("N");
  app.add_option("--p99", a->contention.p99_us,
                 "With --with: the 99th percentile, in microseconds, that the first model is to keep; names the arrangement that "
                 "keeps it")
      ->check(in_range(0.001, 1e12))
      ->type_name("US");
  app.add_flag("!--no-remedies", a->contention.remedies, "With --with: do not measure what helps");
  app.add_option("--seconds", a->contention.seconds, "With --with: of each measurement (3); with --watch: in all")
      ->check(in_range(0.1, 3600.0))
      ->type_name("S");
  app.add_flag(
      "--watch", a->watch,
      "Serve the model, and those of --with, and show what they do, anew each second, until interrupted or for --seconds; "
      "of a running process, pid:1234, what it takes of the cores");
  add_model_options(app, *a);
  app.get_option("model")->description(
      "An ONNX model, or a plan that smelt optimize wrote; or a profile to show: smelt's JSON, a PyTorch trace, an ONNX Runtime "
      "profile, trtexec --exportProfile, Nsight Systems' SQLite");
  add_input_options(app, *a);
  const CLI::Option* seconds = app.get_option("--seconds");
  const CLI::Option *sort_by = app.get_option("--sort-by"), *top_given = app.get_option("--top");
  return [=] {
    if (a->watch) {
      const Watch w{a->contention.with, a->contention.rate, seconds->count() ? a->contention.seconds : 0};
      const std::optional<int> pid = process_of(a->path);
      return pid ? watch_process(*pid, w, a->as_json) : watch_models(*a, w);
    }
    if (!a->layers.empty() || profile::is_profile(a->path)) {
      if (!a->trace.empty() || !a->out.empty())
        fail_usage("{} is a profile: of one that exists, --report and --json can be written", a->path);
      return show_file(a->path, a->layers, a->sort_by, a->top ? static_cast<size_t>(a->top) : SIZE_MAX, a->as_json,
                       a->print_only ? "" : a->report);
    }
    if (!a->contention.with.empty()) {
      a->contention.counters = a->counters == "auto" || a->counters == "cupti";
      if (!a->print_only) a->contention.trace = a->trace, a->contention.report = a->report;
      return contend(*a, a->contention, a->top ? static_cast<size_t>(a->top) : SIZE_MAX);
    }
    const bool in_order = a->sort_by == "order";
    if (!in_order) report::step_table({}).sort_by(a->sort_by);  // refuses a wrong name before anything runs
    const report::Subject subject = a->subject();
    stage("building the plan");
    report::Prepared p = report::prepare(subject, a->optimized || is_plan(a->path));  // a plan runs as it was made
    report::Report r = report::bare_report(subject);
    stage("profiling");
    const bool rewritten = a->optimized || is_plan(a->path);
    r.after = report::profile_of(
        p, {.iterations = a->iterations, .progress = stage_part, .counters = counters_of(*a, a->counters, rewritten)},
        report::known_roof(subject.options));
    profile::Profile& result = *r.after;
    stage("looking at what rewrites would save");
    report::Explained explained;
    if (!is_plan(a->path)) {
      explained = report::complete(result, subject, p, a->optimized);
      const bool usual = p.execution->on_gpu() && subject.options.tuning_level > 0;
      stage("planning it as the advice would have it");
      report::what_if(result, subject, p, a->optimized,
                      a->try_it                    ? report::WhatIf::run
                      : a->foresee.value_or(usual) ? report::WhatIf::plan
                                                   : report::WhatIf::no);
    }

    if (a->as_json) {
      // All steps in their order, unless options ask for fewer; the files below hold all steps in any case.
      report::Report asked = r;
      if (sort_by->count() || top_given->count())
        arrange(*asked.after, sort_by->count() ? a->sort_by : "order", top_given->count() && a->top ? a->top : SIZE_MAX);
      print_line(report::json(asked));
    } else {
      std::vector<report::Table> tables{report::step_table(result),  report::scope_table(result),  report::node_table(result),
                                        report::inner_table(result), report::memory_table(result), report::copy_table(result)};
      if (!in_order) tables[0].sort_by(a->sort_by), tables[2].sort_by("us");
      const size_t top = a->top ? static_cast<size_t>(a->top) : SIZE_MAX;
      for (report::Table& t : tables) t.keep_top(t.key == "memory" && a->top ? std::min<size_t>(top, 10) : top);
      if (result.scopes.size() <= 1) tables.erase(tables.begin() + 1);
      print_tables(tables);
      print_line("\n" + build_text(*p.plan, p.build_s));
      for (const std::string& text : {report::advice_text(result), report::others_text(result)})
        if (!text.empty()) print_line("\n" + text);
      if (result.roof.bytes_per_s <= 0)
        print_line("Shares of the machine's roof need its ceilings once: smelt devices --measure");
      else if (result.roof.under_load)
        print_line("The roof was measured while other work had the cores, and may be higher: smelt devices --measure");
      if (!result.not_counted.empty())
        print_line(fmt::format("Limits are from the {}; no hardware counters: {}", result.limits_from, result.not_counted));
    }
    if (a->print_only) return 0;
    if (!a->trace.empty()) write_text(a->trace, report::chrome_trace(result));
    if (!a->report.empty() || !a->out.empty()) {
      if (a->optimized) r.explained = explained;
      stage("drawing the graph");
      report::add_drawings(r, nullptr, p.plan.get());
      if (!r.drawing_note.empty()) note(r.drawing_note);
    }
    if (!a->report.empty()) write_text(a->report, report::html(r));
    if (!a->out.empty()) write_folder(a->out, r);
    return 0;
  };
}

}  // namespace smelt::cli
