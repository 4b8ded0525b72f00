#include <fmt/core.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "cli/common.h"

namespace smelt::cli {

Action add_profile(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::string sort_by, trace, report, out;
    int top = 25, iterations = 20;
    bool optimized = false, print_only = false;
  };
  auto a = std::make_shared<Arguments>();
  add_model_options(app, *a);
  add_input_options(app, *a);
  app.add_flag("--optimized", a->optimized, "Profile the optimised plan instead of the model as it stands");
  app.add_option("--sort-by", a->sort_by, "A column of the step table: self_us, bytes, flops, share, roof_share, name, op …; execution order if not given");
  app.add_option("--top", a->top, "Rows a table shows; 0 all")->check(CLI::Range(0, 1 << 30));
  app.add_option("--iterations", a->iterations, "Runs timed")->check(CLI::Range(1, 1 << 30));
  app.add_option("--trace", a->trace, "Write a Chrome/Perfetto trace (JSON)");
  app.add_option("--report", a->report, "Write an HTML report");
  app.add_option("--out", a->out, "Write graph.svg, profile.json, trace.json and report.html into this folder");
  app.add_flag("--print-only", a->print_only, "Write no file, whatever else is given");
  return [a] {
    const report::Subject subject = a->subject();
    const report::Prepared p = report::prepare(subject, a->optimized);
    report::Report r = report::bare_report(subject);
    r.after = profile::profile(*p.plan, *p.execution, {.iterations = a->iterations}, report::known_roof(subject.options));
    profile::Profile& result = *r.after;

    if (a->as_json) {
      print_line(report::json(r));
    } else {
      report::Table steps = report::step_table(result);
      steps.sort_by(a->sort_by.empty() ? "self_us" : a->sort_by);
      const size_t top = a->top ? static_cast<size_t>(a->top) : SIZE_MAX;
      steps.keep_top(top);
      print_table(steps);
      print_line("");
      report::Table scopes = report::scope_table(result), memory = report::memory_table(result);
      if (scopes.rows.size() > 1) scopes.keep_top(top), print_table(scopes), print_line("");
      memory.keep_top(std::min<size_t>(top, 10));
      print_table(memory);
      if (result.roof.bytes_per_s <= 0) print_line("\nShares of the machine's roof need its ceilings once: smelt devices --measure");
    }
    if (a->print_only) return 0;
    if (!a->trace.empty()) write_text(a->trace, report::chrome_trace(result));
    if (!a->report.empty() || !a->out.empty()) {
      r.ledger = a->optimized ? report::ledger_of(subject) : fuse::Ledger{};
      report::add_drawings(r, nullptr, p.plan.get());
      if (!r.drawing_note.empty()) note(r.drawing_note);
    }
    if (!a->report.empty()) write_text(a->report, report::html(r));
    if (!a->out.empty()) {
      const std::filesystem::path folder = a->out;
      std::error_code failed;
      std::filesystem::create_directories(folder, failed);
      if (failed) fail("{}: cannot be made: {}", folder.string(), failed.message());
      write_text(folder / "profile.json", report::json(r));
      write_text(folder / "trace.json", report::chrome_trace(result));
      write_text(folder / "report.html", report::html(r));
      if (!r.svg_after.empty()) write_text(folder / "graph.svg", r.svg_after);
      note(fmt::format("wrote {}", (folder / "report.html").string()));
    }
    return 0;
  };
}

}  // namespace smelt::cli
