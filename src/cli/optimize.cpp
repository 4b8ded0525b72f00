#include <fmt/core.h>

#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "cli/busy.h"
#include "cli/common.h"
#include "run/save.h"

namespace smelt::cli {
namespace {

namespace fs = std::filesystem;

/// The error that a conversion adds, on the inputs given.
std::vector<profile::Difference> precision_errors(const report::Subject& subject) {
  const report::Prepared converted = report::prepare(subject, true);
  report::Subject plain = subject;
  plain.options.precision.clear();
  plain.options.keep_fp32.clear();
  const report::Prepared reference = report::prepare(plain, false, &converted);
  converted.execution->run();
  reference.execution->run();
  return report::differences_of(reference, converted);
}

}  // namespace

Action add_optimize(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::string output, report;
    SaveOptions save;
    profile::BenchOptions bench;
  };
  auto a = std::make_shared<Arguments>();
  app.add_option("-o,--output", a->output, "The plan to write; MODEL.plan.onnx beside the model if not given")->type_name("FILE");
  app.add_flag("--copy-weights", a->save.copy_weights,
               "Write the weights beside the plan, even where it could point at the model's data file");
  app.add_flag_callback(
      "--no-packed-weights", [a] { a->save.packed_weights = false; },
      "Do not write weights into a processor's plan as its kernels read them, too, which makes it larger and starts it sooner");
  app.add_flag("--embed-kernels", a->save.embed_kernels,
               "Write a GPU's compiled kernels into the plan, which then runs without a compiler and unmeasured");
  app.add_option("--report", a->report, "Also time the plan against the unfused model and write an HTML report")
      ->type_name("FILE");
  app.add_option("--arch", a->options.arch,
                 "Make the plan for a GPU of this architecture, here or not: sm_87. Nothing is measured; NVRTC is needed, a "
                 "driver is not")
      ->type_name("ARCH");
  add_model_options(app, *a);
  add_input_options(app, *a);
  return [a] {
    const report::Subject subject = a->subject();
    Options options = subject.options;
    if (options.profiles.empty()) options.shapes = subject.shapes;
    const fs::path output = a->output.empty() ? fs::path(a->path).replace_extension(".plan.onnx") : fs::path(a->output);
    stage("rewriting");
    const report::Explained explained = report::explain(subject);
    check_destination(a->path, output, options, a->save);
    stage("building the plan");
    const auto begin = std::chrono::steady_clock::now();
    const auto plan = Plan::build(a->path, options);
    const double build_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    stage("writing the plan");
    const Saved saved = save_plan(*plan, output, a->save);

    stage("comparing with the model as it stands");
    std::vector<report::Table> tables{report::ledger_summary(explained), report::form_table(explained)};
    if (a->as_json) tables.insert(tables.end(), {report::plan_table(*plan, build_s), report::build_table(*plan)});
    if (!options.precision.empty()) tables.push_back(report::difference_table(precision_errors(subject)));
    if (a->as_json) {
      print_line(report::document_json("smelt.optimize", tables));
    } else {
      print_tables(tables);
      const auto size = [](int64_t bytes) { return report::format(static_cast<double>(bytes), report::Unit::bytes); };
      print_line("\n" + build_text(*plan, build_s));
      std::error_code no_file;  // a pipe or a device has no size
      const uintmax_t bytes = fs::file_size(output, no_file);
      print_line(no_file ? fmt::format("wrote {}", output.string())
                         : fmt::format("wrote {} ({})", output.string(), size(static_cast<int64_t>(bytes))));
      if (saved.kernels > 0)
        print_line(fmt::format("it carries {} compiled kernel{} ({})", saved.kernels, saved.kernels == 1 ? "" : "s",
                               size(saved.kernel_bytes)));
      if (!saved.data.empty())
        print_line(
            fmt::format("wrote {} ({} of weights{})", saved.data.string(), size(saved.data_bytes - saved.packed_bytes),
                        saved.packed_bytes > 0 ? fmt::format(", another {} packed for kernels", size(saved.packed_bytes)) : ""));
    }
    if (!a->report.empty()) {
      stage("timing and profiling the plan against the unfused model");
      report::Comparison c = report::compare_speed(subject, "", a->bench);
      write_text(a->report, report::html(report::full_report(subject, c)));
      note(report::verdict(c.bench));
      note(fmt::format("wrote {}", a->report));
    }
    return 0;
  };
}

}  // namespace smelt::cli
