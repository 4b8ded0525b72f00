#include "python_api.h"

#include <chrono>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "device/cuda/device.h"
#include "graph/graph.h"
#include "import/export.h"
#include "import/import.h"
#include "ops/core/expand.h"
#include "ops/core/operator.h"
#include "report/subject.h"
#include "report/tuned.h"
#include "run/save.h"

namespace smelt::python {
namespace {

report::Subject subject(const std::string& model, const Options& options, const Feeds& feeds = {}) {
  report::Subject s;
  s.path = model;
  s.options = options;
  s.options.tune_new_shapes = true;  // what is timed, or shown, is tuned
  s.shapes = options.shapes;
  s.feeds = feeds;
  return s;
}

std::string print_all(const std::vector<report::Table>& tables) {
  std::string out;
  for (const report::Table& t : tables)
    if (!t.rows.empty()) out += (out.empty() ? "" : "\n") + printable(report::print(t, 160));
  return out;
}

Printed printed(std::string_view format, const std::vector<report::Table>& tables) {
  return {report::document_json(format, tables), print_all(tables)};
}

}  // namespace

Session session_from_bytes(const std::string& model, const Options& options) {
  ImportOptions wanted;
  wanted.shapes = options.shapes;
  wanted.supported = [](std::string_view domain, std::string_view op) { return ops::find(op, domain) != nullptr; };
  wanted.expand = ops::expand;
  const std::span bytes(reinterpret_cast<const uint8_t*>(model.data()), model.size());
  return Session(Plan::build(import_model(bytes, "model", wanted), options));
}

Printed optimize(const std::string& model, const std::string& output, const Options& options, bool copy_weights,
                 bool embed_kernels, bool packed_weights) {
  const SaveOptions save{.copy_weights = copy_weights, .packed_weights = packed_weights, .embed_kernels = embed_kernels};
  check_destination(model, output, options, save);
  const report::Explained explained = report::explain(subject(model, options));
  const auto begin = std::chrono::steady_clock::now();
  const auto plan = Plan::build(model, options);
  const double build_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (options.progress) options.progress({.doing = "saving"});  // the last chance to leave no files behind
  save_plan(*plan, output, save);
  return printed("smelt.optimize", {report::ledger_summary(explained), report::form_table(explained),
                                    report::plan_table(*plan, build_s), report::build_table(*plan)});
}

Printed profile(const std::string& model, const Options& options, const Feeds& feeds, int iterations, const std::string& report,
                const std::string& trace) {
  const report::Subject s = subject(model, options, feeds);
  report::Prepared p = report::prepare(s, options.optimize);
  report::Report r = report::bare_report(s);
  r.after = report::profile_of(p, {.iterations = iterations}, report::known_roof(options));
  report::Explained explained;
  if (!p.plan->graph().model.metadata.contains(plan_version_key)) explained = report::complete(*r.after, s, p, options.optimize);
  report::Table steps = report::step_table(*r.after), scopes = report::scope_table(*r.after),
                memory = report::memory_table(*r.after);
  steps.sort_by("self_us");
  steps.keep_top(25);
  scopes.keep_top(25);
  memory.keep_top(10);
  if (!trace.empty()) write_text(trace, report::chrome_trace(*r.after));
  if (!report.empty()) {
    if (options.optimize) r.explained = std::move(explained);
    report::add_drawings(r, nullptr, p.plan.get());
    write_text(report, report::html(r));
  }
  std::string said = print_all({steps, scopes, report::inner_table(*r.after), memory, report::copy_table(*r.after)});
  for (const std::string& text : {report::advice_text(*r.after), report::others_text(*r.after)})
    if (!text.empty()) said += "\n" + printable(text) + "\n";
  return {report::json(r), said};
}

Printed tune(const std::vector<std::string>& problems, const std::string& from, const Options& options, const std::string& plot) {
  if (problems.empty() && from.empty()) fail_usage("neither a problem nor a model is given");
  const std::vector<report::TunedProduct> found = report::tune_products(problems, from, options);
  if (!plot.empty()) report::write_tuning_plot(plot, problems, found, options);
  const std::string vendor = report::vendor_name(options);
  std::vector<report::Table> tables;
  for (const report::TunedProduct& p : found) tables.push_back(report::tuned_table({p}, false, vendor));
  return {report::document_json("smelt.tune", {report::tuned_table(found, true, vendor), report::not_measured_table(found)}),
          print_all(tables)};
}

Printed explain(const std::string& model, const Options& options, bool kernels) {
  const report::Subject s = subject(model, options);
  const report::Explained e = report::explain(s);
  std::vector<report::Table> tables{report::ledger_summary(e), report::form_table(e)};
  if (!e.float_nodes.empty()) tables.push_back(report::float_table(e));
  tables.push_back(report::ledger_table(e));
  if (kernels) {
    const std::vector<StepInfo> steps = report::prepare(s, true).execution->steps();
    tables.push_back(report::fused_table(steps));
    tables.push_back(report::region_table(steps));
    tables.push_back(report::tactic_table(steps));
  }
  return printed("smelt.explain", tables);
}

Printed bench(const std::string& model, const std::string& against, const Options& options, const Feeds& feeds, int iterations,
              double duration_s, const std::string& report) {
  const report::Subject s = subject(model, options, feeds);
  report::Comparison c = report::compare_speed(s, against, {.iterations = iterations, .duration_s = duration_s});
  report::Report r = report::bare_report(s);
  if (!report.empty()) {
    r = report::full_report(s, c);
    write_text(report, report::html(r));
  } else {
    r.slower = report::why_slower(s, c);
  }
  r.bench = c.bench;
  r.fused = report::fused_table(c.after.execution->steps());
  report::Table fused = *r.fused;
  fused.keep_top(20);
  std::vector<report::Table> tables{report::qa_table(c.bench), report::difference_table(r.differences)};
  if (r.slower) tables.push_back(*r.slower), tables.back().keep_top(20);
  tables.push_back(fused);
  return {report::json(r), print_all(tables)};
}

int gpu_count() { return static_cast<int>(device::cuda::devices().size()); }

std::string version() { return SMELT_VERSION; }

}  // namespace smelt::python
