// What the verbs share: the options every model-reading verb takes, and how results leave the command.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "report/subject.h"
#include "smelt/session.h"

namespace smelt::cli {

/// A verb fills its subcommand's options and returns what to do once they are parsed; that returns the exit code.
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

  /// The options with what was given as text parsed. Throws Error (usage).
  report::Subject subject() const;
};

/// MODEL, --threads, --tactics, --tuning-level, --skip, --precision, --keep-fp32, --shapes, --cache-dir, --no-cache, --json.
void add_model_options(CLI::App& app, ModelArguments& m);
/// --inputs (and trtexec's --loadInputs), --seed.
void add_input_options(CLI::App& app, ModelArguments& m);

int terminal_width();                  // 0: not a terminal
void print_table(const report::Table& t);
void print_line(const std::string& line);
/// For stderr: progress and notes that are not results.
void note(const std::string& line);

Action add_info(CLI::App& app);
Action add_profile(CLI::App& app);
Action add_optimize(CLI::App& app);
Action add_explain(CLI::App& app);
Action add_run(CLI::App& app);
Action add_bench(CLI::App& app);
Action add_compare(CLI::App& app);
Action add_devices(CLI::App& app);
Action add_cache(CLI::App& app);

}  // namespace smelt::cli
