#include "python_api.h"

#include "base/error.h"
#include "import/import.h"
#include "ops/op.h"
#include "report/subject.h"
#include "run/save.h"

namespace smelt::python {
namespace {

report::Subject subject(const std::string& model, const Options& options, const std::map<std::string, Tensor>& feeds = {}) {
  report::Subject s;
  s.path = model;
  s.options = options;
  s.shapes = options.shapes;
  s.feeds = feeds;
  return s;
}

std::string print_all(const std::vector<report::Table>& tables) {
  std::string out;
  for (const report::Table& t : tables) out += (out.empty() ? "" : "\n") + report::print(t, 180);
  return out;
}

}  // namespace

Session session_from_bytes(const std::string& model, const Options& options) {
  ImportOptions import;
  import.shapes = options.shapes;
  import.supported = [](std::string_view domain, std::string_view op) { return ops::find(op, domain) != nullptr; };
  return Session(Plan::build(import_model(std::span(reinterpret_cast<const uint8_t*>(model.data()), model.size()), "model", import), options));
}

std::string optimize(const std::string& model, const std::string& output, const Options& options, bool copy_weights) {
  const auto plan = Plan::build(model, options);
  save_plan(*plan, output, {.copy_weights = copy_weights});
  return output;
}

Printed profile(const std::string& model, const Options& options, const std::map<std::string, Tensor>& feeds, int iterations) {
  const report::Subject s = subject(model, options, feeds);
  const report::Prepared p = report::prepare(s, options.optimize);
  report::Report r = report::bare_report(s);
  r.after = profile::profile(*p.plan, *p.execution, {.iterations = iterations}, report::known_roof(options));
  report::Table steps = report::step_table(*r.after);
  steps.sort_by("self_us");
  steps.keep_top(25);
  return {report::json(r), print_all({steps, report::scope_table(*r.after)})};
}

Printed explain(const std::string& model, const Options& options) {
  const fuse::Ledger ledger = report::ledger_of(subject(model, options));
  const std::vector<report::Table> tables{report::ledger_summary(ledger), report::ledger_table(ledger)};
  return {report::table_json(tables), print_all(tables)};
}

Printed bench(const std::string& model, const std::string& against, const Options& options, const std::map<std::string, Tensor>& feeds, int iterations, double duration_s) {
  const report::Subject s = subject(model, options, feeds);
  report::Comparison c = report::compare_speed(s, against, {.iterations = iterations, .duration_s = duration_s});
  report::Report r = report::bare_report(s);
  r.bench = c.bench;
  return {report::json(r), print_all({report::qa_table(c.bench)})};
}

std::string version() { return SMELT_VERSION; }

}  // namespace smelt::python
