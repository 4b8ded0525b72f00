#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "cli/busy.h"
#include "cli/common.h"
#include "profile/inputs.h"
#include "report/tuned.h"
#include "tune/problem_text.h"

namespace smelt::cli {
namespace {

std::string stripped(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t\r");
  return first == line.npos ? "" : line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

/// A problem a line; empty lines and what follows a '#' say nothing. An error names the line.
std::vector<std::string> problems_in(const std::string& path) {
  std::vector<std::string> problems;
  std::istringstream lines(read_text(path));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string text = stripped(line.substr(0, line.find('#')));
    if (text.empty()) continue;
    try {
      tune::parse_problem(text);
    } catch (const Error& e) {
      throw Error(fmt::format("{}:{}: {}", path, number, e.what()), e.next(), e.code());
    }
    problems.push_back(text);
  }
  if (problems.empty())
    throw Error(path + ": it names no problem", "A line each, as gemm:f16:48x4096x4096:rcr:bias+relu", ExitCode::usage);
  return problems;
}

}  // namespace

Action add_tune(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::vector<std::string> what;
    std::string from, csv_file, plot;
    bool all = false;
  };
  auto a = std::make_shared<Arguments>();
  app.add_option("what", a->what,
                 "Problems, gemm:TYPE:MxNxK[:LAYOUT[:EPILOGUE]], as gemm:f16:48x4096x4096:rcr:bias+relu, or "
                 "conv:TYPE:X,W[:GEOMETRY[:LAYOUT[:EPILOGUE]]], as conv:f16:1x64x56x56,64x64x3x3:s1p1:nhwc:bias+relu, or files "
                 "with one a line")
      ->type_name("PROBLEM|FILE");
  app.add_option("--from", a->from, "Every matrix product of this model, as its plan runs it")->type_name("FILE");
  app.add_option("--shapes", a->shapes_text, "Extents of the model's symbolic inputs, as x:1x128; 1 where not given")
      ->type_name("SPEC");
  app.add_option("--csv", a->csv_file, "Write the table there, as comma-separated values; - for standard output")
      ->type_name("FILE");
  app.add_option("--plot", a->plot,
                 "Write a drawing there (SVG): the time over M from 1 to 512 of the first problem (over 1 to 64 images), and all "
                 "candidates under the roof")
      ->type_name("FILE");
  app.add_flag("--all", a->all, "Also what was not measured, and why");
  add_build_options(app, *a);
  add_json(app, a->as_json);
  return [a] {
    std::vector<std::string> problems;
    for (const std::string& what : a->what) {
      if (tune::is_problem(what))
        problems.push_back(what);
      else
        std::ranges::copy(problems_in(what), std::back_inserter(problems));
    }
    if (problems.empty() && a->from.empty())
      throw Error("neither a problem nor a model is given",
                  "As in smelt tune gemm:f32:48x1024x1024:rcr:bias+relu, or smelt tune --from model.onnx", ExitCode::usage);
    Options options = a->options;
    options.use_cache = !a->no_cache;
    if (options.tuning_level == 0)
      throw Error("--tuning-level 0 measures nothing", "Levels 1 to 3 do; 3 measures every candidate.", ExitCode::usage);
    options.shapes = profile::parse_shapes(a->shapes_text);
    const bool on_terminal = isatty(STDERR_FILENO) != 0;
    const auto say = [&](const std::string& what) {
      if (on_terminal) note("measuring " + what);
      stage("measuring " + what);
    };
    const std::vector<report::TunedProduct> found = report::tune_products(problems, a->from, options, say);
    const std::string vendor = report::vendor_name(options);
    if (!a->plot.empty()) report::write_tuning_plot(a->plot, problems, found, options, say);
    const report::Table table = report::tuned_table(found, true, vendor);
    if (a->csv_file == "-") return print_line(report::csv(table)), 0;
    if (!a->csv_file.empty()) write_text(a->csv_file, report::csv(table));
    if (a->as_json) return print_line(report::document_json("smelt.tune", {table, report::not_measured_table(found)})), 0;
    std::vector<report::Table> tables;
    for (const report::TunedProduct& p : found) {
      tables.push_back(report::tuned_table({p}, false, vendor));
      if (a->all) tables.push_back(report::not_measured_table({p}));
    }
    print_tables(tables);
    return 0;
  };
}

}  // namespace smelt::cli
