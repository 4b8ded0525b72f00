// What the verbs share: the options of all verbs that read a model, and the printing of results.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "report/subject.h"
#include "smelt/session.h"

namespace smelt::cli {

/// A verb adds its subcommand's options and returns the action that runs once they are parsed. The action returns the exit code.
using Action = std::function<int()>;

struct ModelArguments {
  std::string path;
  std::string shapes_text;
  std::string keep_text;
  std::vector<std::string> input_files;
  uint64_t seed = 0;
  Options options;
  bool as_json = false;
  bool no_cache = false;

  /// The options, with texts parsed and progress shown on a terminal. Throws Error (usage).
  report::Subject subject() const;
};

/// MODEL, and what fixes its graph: --shapes, --skip.
void add_graph_options(CLI::App& app, ModelArguments& m, const char* what = "An ONNX model, or a plan that smelt optimize wrote");
/// Adds where and how the plan runs: --tactics, --tuning-level, --device, --memory, --allow-fallback, --threads, --cache-dir,
/// --no-cache.
void add_build_options(CLI::App& app, ModelArguments& m);
/// --precision and --keep-fp32.
void add_precision(CLI::App& app, ModelArguments& m);
/// add_graph_options, add_precision, add_build_options, --json.
void add_model_options(CLI::App& app, ModelArguments& m);
/// --inputs (and trtexec's --loadInputs), --seed.
void add_input_options(CLI::App& app, ModelArguments& m);
/// A range check that refuses NaN and does not show its bounds in the help.
template <class T> CLI::Validator in_range(T low, T high) {
  return CLI::Validator(
      [range = CLI::Range(low, high), low, high](std::string& text) {
        T value{};
        const bool inside = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
        return inside ? std::string() : range(text).empty() ? text + " is not a number" : range(text);
      },
      "");
}
void add_threads(CLI::App& app, int& threads);
void add_cache_dir(CLI::App& app, std::string& dir);
void add_json(CLI::App& app, bool& as_json);

int terminal_width();  // 0: not a terminal
void print_table(const report::Table& t);
/// Prints tables with a line between them. It leaves out tables without rows.
void print_tables(const std::vector<report::Table>& tables);
void print_line(const std::string& line);
/// For stderr: progress and notes that are not results.
void note(const std::string& line);
/// "built in 4.39 s (tuning level 2: 27 problems, 25 measured in 3.1 s, 2 from the cache)".
std::string build_text(const Plan& plan, double seconds);

Action add_info(CLI::App& app);
Action add_profile(CLI::App& app);
Action add_optimize(CLI::App& app);
Action add_quantize(CLI::App& app);
Action add_explain(CLI::App& app);
Action add_run(CLI::App& app);
Action add_bench(CLI::App& app);
Action add_compare(CLI::App& app);
Action add_diff(CLI::App& app);
Action add_tune(CLI::App& app);
Action add_inspect(CLI::App& app);
Action add_serve(CLI::App& app);
Action add_launch(CLI::App& app);
Action add_devices(CLI::App& app);
Action add_cache(CLI::App& app);

}  // namespace smelt::cli
