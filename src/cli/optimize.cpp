#include <fmt/core.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "cli/common.h"
#include "run/save.h"

namespace smelt::cli {

Action add_optimize(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::string output, report;
    SaveOptions save;
    profile::BenchOptions bench;
  };
  auto a = std::make_shared<Arguments>();
  add_model_options(app, *a);
  add_input_options(app, *a);
  app.add_option("-o,--output", a->output, "The plan to write; MODEL.plan.onnx beside the model if not given");
  app.add_flag("--copy-weights", a->save.copy_weights, "Write the weights beside the plan, even where it could point at the model's data file");
  app.add_option("--report", a->report, "Also time the plan against the unfused model and write an HTML report");
  return [a] {
    const report::Subject subject = a->subject();
    Options options = subject.options;
    options.shapes = subject.shapes;
    std::filesystem::path output = a->output;
    if (a->output.empty()) output = std::filesystem::path(a->path).replace_extension(".plan.onnx");

    const fuse::Ledger ledger = report::ledger_of(subject);
    const auto plan = Plan::build(a->path, options);
    const Saved saved = save_plan(*plan, output, a->save);
    const report::Table rewrites = report::ledger_summary(ledger);
    if (a->as_json) {
      print_line(report::table_json({rewrites}));
    } else {
      print_table(rewrites);
      print_line("");
      print_line(fmt::format("wrote {} ({})", output.string(), report::format(static_cast<double>(std::filesystem::file_size(output)), report::Unit::bytes)));
      if (!saved.data.empty()) print_line(fmt::format("wrote {} ({} of weights)", saved.data.string(), report::format(static_cast<double>(saved.data_bytes), report::Unit::bytes)));
    }
    if (!options.precision.empty() && !a->as_json) {
      // What the conversion costs in accuracy, on the inputs given.
      const report::Prepared converted = report::prepare(subject, true);
      report::Subject plain = subject;
      plain.options.precision.clear();
      const report::Prepared reference = report::prepare(plain, false, &converted.inputs);
      converted.execution->run();
      reference.execution->run();
      std::vector<profile::Difference> differences;
      for (size_t i = 0; i < plan->outputs().size(); ++i)
        differences.push_back(profile::difference(plan->outputs()[i].name, converted.execution->outputs()[i], reference.execution->outputs()[i]));
      print_line("");
      print_table(report::difference_table(differences));
    }
    if (!a->report.empty()) {
      report::Comparison c = report::compare_speed(subject, "", a->bench);
      const report::Report r = report::full_report(subject, c);
      write_text(a->report, report::html(r));
      print_line(report::verdict(c.bench));
      note(fmt::format("wrote {}", a->report));
    }
    return 0;
  };
}

}  // namespace smelt::cli
