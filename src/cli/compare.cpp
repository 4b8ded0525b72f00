#include <fmt/core.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/busy.h"
#include "cli/common.h"

namespace smelt::cli {
namespace {

report::Table bisection_table(const std::optional<profile::Bisection>& b) {
  report::Table t{.key = "bisection",
                  .title = "First to leave tolerance",
                  .columns = {{"value", "value"},
                              {"node", "made by"},
                              {"sources", "stands for"},
                              {"max_abs", "max", report::Unit::error},
                              {"max_rel", "max relative", report::Unit::error},
                              {"compared", "compared", report::Unit::count}}};
  if (b) t.rows.push_back({b->value, b->node, b->sources, b->difference.max_abs, b->difference.max_rel, b->compared});
  return t;
}

report::Table tolerance_table(const profile::Tolerance& t, bool within) {
  return {.key = "tolerance",
          .title = "Tolerance",
          .columns = {{"rtol", "relative", report::Unit::error}, {"atol", "absolute", report::Unit::error}, {"within", "within"}},
          .rows = {{t.rtol, t.atol, within}}};
}

report::Prepared prepared(const std::string& path, const Options& options) {
  report::Prepared p;
  p.plan = Plan::build(path, options);
  p.execution = p.plan->execution();
  return p;
}

}  // namespace

Action add_compare(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::string other;
    profile::Tolerance tolerance;
    bool bisect = false;
  };
  auto a = std::make_shared<Arguments>();
  add_model_options(app, *a);
  app.add_option("other", a->other, "The model or plan to compare with the first; the first, optimised, if not given")
      ->type_name("FILE");
  app.add_option("--rtol", a->tolerance.rtol,
                 "Relative tolerance (0.001), of the element or the tensor's root mean square, if that is larger")
      ->check(in_range(0.0, 1e300))
      ->type_name("X");
  app.add_option("--atol", a->tolerance.atol, "Absolute tolerance (1e-5)")->check(in_range(0.0, 1e300))->type_name("X");
  app.add_flag("--bisect", a->bisect, "Name the first node whose result leaves tolerance");
  add_input_options(app, *a);
  return [a] {
    // The first is the reference and runs as it stands. If it is a plan, its fused nodes stay fused.
    const report::Subject subject = a->subject();
    Options plain = subject.options, changed = subject.options;
    plain.optimize = false;
    plain.precision.clear();
    plain.keep_fp32.clear();
    changed.optimize = a->other.empty();
    const std::string other_path = a->other.empty() ? a->path : a->other;
    MappedFile::open(other_path);  // a name that is wrong is said before the first is built, not after
    stage("building both plans");
    report::Prepared reference = prepared(a->path, plain), other = prepared(other_path, changed);
    reference.inputs = report::inputs_for(*reference.plan, subject);
    other.inputs = report::in_order_of(*other.plan, reference);
    stage("running both");
    for (report::Prepared* p : {&reference, &other}) {
      p->execution->bind(p->inputs);
      p->execution->run();
    }
    const std::vector<profile::Difference> differences = report::differences_of(reference, other);
    bool all = true;
    for (const TensorInfo& o : reference.plan->outputs())
      all &= profile::within(report::output_of(other, o.name), report::output_of(reference, o.name), a->tolerance);

    std::vector<report::Table> tables{report::difference_table(differences), tolerance_table(a->tolerance, all)};
    if (a->bisect) {
      stage("comparing all values");
      const auto first = profile::bisect({*reference.plan, reference.inputs}, {*other.plan, other.inputs}, a->tolerance);
      tables.push_back(bisection_table(first));
      if (!first) note("every value that both compute is within tolerance");
    }
    if (a->as_json)
      print_line(report::document_json("smelt.compare", tables));
    else
      print_tables(tables);
    if (!all)
      note(fmt::format("smelt compare: outputs differ by more than rtol {:g}, atol {:g}", a->tolerance.rtol, a->tolerance.atol));
    return static_cast<int>(all ? ExitCode::ok : ExitCode::accuracy);
  };
}

}  // namespace smelt::cli
