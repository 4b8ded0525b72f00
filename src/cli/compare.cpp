#include <fmt/core.h>

#include "base/error.h"
#include "cli/common.h"

namespace smelt::cli {
namespace {

std::map<std::string, Tensor> run_once(const Plan& plan, const std::vector<Tensor>& inputs) {
  const auto execution = plan.execution();
  execution->bind(inputs);
  execution->run();
  std::map<std::string, Tensor> tensors;
  for (size_t i = 0; i < plan.outputs().size(); ++i) tensors[plan.outputs()[i].name] = execution->outputs()[i].clone();
  return tensors;
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
  app.add_option("other", a->other, "The model or plan to compare with the first; the first, optimised, if not given");
  add_input_options(app, *a);
  app.add_option("--rtol", a->tolerance.rtol, "Relative tolerance, of the element or the tensor's root mean square, whichever is larger");
  app.add_option("--atol", a->tolerance.atol, "Absolute tolerance");
  app.add_flag("--bisect", a->bisect, "Name the first node whose result leaves tolerance");
  return [a] {
    // The first is the reference: run as it stands unless it is itself a plan, whose fused nodes run as such either way.
    const report::Subject subject = a->subject();
    Options plain = subject.options, changed = subject.options;
    plain.optimize = false;
    plain.precision.clear();
    changed.optimize = a->other.empty();
    const auto reference = Plan::build(a->path, plain);
    const auto other = Plan::build(a->other.empty() ? a->path : a->other, changed);
    const std::vector<Tensor> inputs = report::inputs_for(*reference, subject);
    if (reference->inputs().size() != other->inputs().size())
      fail_usage("{} has {} inputs, {} has {}", a->path, reference->inputs().size(), a->other, other->inputs().size());
    std::vector<Tensor> same;
    for (const TensorInfo& i : other->inputs()) {
      size_t k = 0;
      while (k < reference->inputs().size() && reference->inputs()[k].name != i.name) ++k;
      if (k == reference->inputs().size()) fail_usage("{} has an input '{}' that {} has not", a->other, i.name, a->path);
      same.push_back(inputs[k]);
    }
    const auto expected = run_once(*reference, inputs), found = run_once(*other, same);
    std::vector<profile::Difference> differences;
    bool all = true;
    for (const TensorInfo& o : reference->outputs()) {
      const auto at = found.find(o.name);
      if (at == found.end()) fail_usage("{} has no output '{}'", a->other, o.name);
      differences.push_back(profile::difference(o.name, at->second, expected.at(o.name)));
      all &= profile::within(at->second, expected.at(o.name), a->tolerance);
    }
    const report::Table table = report::difference_table(differences);
    if (a->as_json) print_line(report::table_json({table}));
    else print_table(table);
    if (a->bisect) {
      const auto first = profile::bisect(*reference, *other, inputs, a->tolerance);
      if (!first) {
        note("every value that both compute is within tolerance");
      } else {
        std::string sources;
        for (const std::string& s : first->sources) sources += (sources.empty() ? "" : ", ") + s;
        note(fmt::format("first to leave tolerance, of {} compared: '{}', made by node '{}' (stands for {}); max error {:.3g}, relative {:.3g}", first->compared,
                         first->value, first->node, sources, first->difference.max_abs, first->difference.max_rel));
      }
    }
    if (!all) note(fmt::format("smelt compare: outputs differ by more than rtol {:g}, atol {:g}", a->tolerance.rtol, a->tolerance.atol));
    return static_cast<int>(all ? ExitCode::ok : ExitCode::accuracy);
  };
}

}  // namespace smelt::cli
