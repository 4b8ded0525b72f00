#include "cli/common.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "cli/busy.h"
#include "ops/core/machine.h"
#include "profile/inputs.h"
#include "run/early_launch.h"

namespace smelt::cli {
namespace {

int columns(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// To standard error; one that is closed or full is no error.
void note_part(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

report::Subject ModelArguments::subject() const {
  if (!keep_text.empty() && options.precision.empty())
    throw Error("--keep-fp32 says what to leave out of a conversion, and there is none", "Give --precision=fp16 or bf16 too.",
                ExitCode::usage);
  report::Subject s;
  s.path = path;
  s.options = options;
  s.options.keep_fp32 = split(keep_text);
  s.options.use_cache = !no_cache;
  s.options.progress = stage_build;
  s.options.profiles = profile::parse_profiles(shapes_text);
  if (s.options.profiles.empty())
    s.shapes = profile::parse_shapes(shapes_text);
  else
    for (const auto& [name, range] : s.options.profiles.front()) s.shapes[name] = range.opt;
  s.options.tune_new_shapes = true;  // what is timed, or shown, is tuned
  s.input_files = input_files;
  s.seed = seed;
  return s;
}

void add_graph_options(CLI::App& app, ModelArguments& m, const char* what) {
  app.add_option("model", m.path, what)->required()->type_name("FILE");
  app.add_option(
         "--shapes", m.shapes_text,
         "Extents of symbolic inputs, as x:1x3x224x224,mask:1x8; 1 where not given. Ranges to prepare for, as min:opt:max: "
         "x:1x3x48x64:320:640; several profiles between semicolons")
      ->type_name("SPEC");
  app.add_option("--skip", m.options.skip, "Rewrites to leave out")->delimiter(',')->allow_extra_args(false)->type_name("NAME");
  app.add_flag("!--no-take-apart", m.options.take_apart,
               "On a GPU, Loops of known turns stay loops and Einsums one operator, as on the processor");
}

void add_build_options(CLI::App& app, ModelArguments& m) {
  app.add_option(
         "--tactics", m.options.tactics,
         "Tactics to allow (+) and refuse (-), in order: +onednn,-reference. On a GPU, nondeterministic and cute are off unless "
         "allowed by name, and a build measures early_launch unless it is named")
      ->type_name("LIST");
  app.add_option("--tuning-level", m.options.tuning_level,
                 "0 the cost model's first choice, nothing measured; 1 the two best guesses; 2 the likely ones (default); 3 "
                 "every one, at length")
      ->check(in_range(0, 3))
      ->type_name("0-3");
  app.add_option("--tuning-time-limit", m.options.tuning_time_limit,
                 "Seconds that measuring may take; estimates decide what is left then. 0: no limit (default)")
      ->check(in_range(0.0, 1e6))
      ->type_name("S");
  app.add_option("--device", m.options.device, "cpu (default), gpu, or a GPU's number: 1")->type_name("DEVICE");
  app.add_option("--memory-limit,--memory", m.options.memory_limit,
                 "The most that the model's values may take of the GPU's memory, or of the host's: 2GiB")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE");
  app.add_flag("!--no-plan-kernels", m.options.plan_kernels, "Refuse a plan that carries compiled kernels, which are code");
  app.add_option("--time-limit", m.options.time_limit, "Seconds that one run may take; 0: no limit (default)")
      ->check(CLI::NonNegativeNumber)
      ->type_name("SECONDS");
  app.add_flag("--allow-fallback", m.options.allow_fallback,
               "Run what no kernel for the GPU takes on the processor, with copies between");
  add_threads(app, m.options.threads);
  app.add_flag("!--no-spin", m.options.spin, "Threads that wait for work sleep at once");
  add_cache_dir(app, m.options.cache_dir);
  app.add_flag("--no-cache", m.no_cache, "Neither read nor write the tuning cache");
}

void add_precision(CLI::App& app, ModelArguments& m) {
  app.add_option("--precision", m.options.precision, "Convert an fp32 model: fp16, bf16 or tf32")
      ->check(CLI::IsMember({"fp16", "bf16", "tf32"}))
      ->type_name("TYPE");
  app.add_option("--keep-fp32", m.keep_text, "Nodes or modules that stay fp32 then; * and ? stand for any text, any character")
      ->type_name("PATTERN");
}

void add_model_options(CLI::App& app, ModelArguments& m) {
  add_graph_options(app, m);
  add_precision(app, m);
  add_build_options(app, m);
  add_json(app, m.as_json);
}

void add_input_options(CLI::App& app, ModelArguments& m) {
  app.add_option("--inputs,--loadInputs", m.input_files, "in.npz, NAME:file.npy or NAME:file (raw bytes); random where not given")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("FILE");
  app.add_option("--seed", m.seed, "Of the random inputs")->type_name("N");
}

void add_threads(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "CPU threads; 0 all that this process may use (default)")
      ->check(in_range(0, ops::max_threads))
      ->type_name("N");
}

void add_cache_dir(CLI::App& app, std::string& dir) {
  app.add_option(
         "--cache-dir", dir,
         "Folder of the tuning cache and the machine's ceilings (SMELT_CACHE_DIR, XDG_CACHE_HOME/smelt or ~/.cache/smelt)")
      ->type_name("DIR");
}

void add_json(CLI::App& app, bool& as_json) { app.add_flag("--json", as_json, "Print JSON"); }

int terminal_width() {
  if (!isatty(STDOUT_FILENO)) return 0;
  return columns(STDOUT_FILENO) > 40 ? columns(STDOUT_FILENO) : 0;
}

void print_table(const report::Table& t) {
  clear_busy_line();
  // In a pipe, tables keep whole cells, up to a width that editors and mails can show.
  fmt::print("{}", printable(report::print(t, terminal_width() ? terminal_width() : 180)));
}
void print_tables(const std::vector<report::Table>& tables) {
  bool first = true;
  for (const report::Table& t : tables) {
    if (t.rows.empty()) continue;
    if (!first) print_line("");
    print_table(t);
    first = false;
  }
}
void print_line(const std::string& line) {
  clear_busy_line();
  fmt::print("{}{}", printable(line), line.ends_with('\n') ? "" : "\n");
}
void note(const std::string& line) {
  clear_busy_line();
  note_part(printable(line) + '\n');
}

std::string build_text(const Plan& plan, double seconds) {
  const auto time = [](double s) { return report::format(s, report::Unit::seconds); };
  const BuildInfo b = plan.build_info();
  std::string stages = report::stages_text(plan);
  if (!stages.empty()) stages = "\n  " + stages;
  if (b.tuning_level == 0)
    return fmt::format(
        "built in {} (tuning level 0: nothing measured{}){}", time(seconds),
        b.reused > 0 ? fmt::format(", {} problems decided by timings with another number of threads", b.reused) : "", stages);
  const std::string clocks = report::clocks_text(b.clocks);
  std::string doubts;
  if (b.under_load > 0)
    doubts += fmt::format(
        "\n  {} of {} problems were measured while other work had the cores: a later build in quiet measures them again",
        b.under_load, b.problems);
  if (b.out_of_time > 0)
    doubts +=
        fmt::format("\n  {} of {} problems were decided by estimates: the time for measuring was up", b.out_of_time, b.problems);
  if (b.reused + b.narrowed > 0)
    doubts += fmt::format(
        "\n  {} problems were decided by timings with another number of threads, and of {} only what these put near the fastest "
        "was "
        "measured",
        b.reused, b.narrowed);
  if (const std::string early = report::early_launch_text(run::early_launch_of(plan)); !early.empty())
    doubts += "\n  kernels begin early: " + early;
  return fmt::format("built in {} (tuning level {}: {} problems, {} measured in {}{}, {} from the cache){}{}", time(seconds),
                     b.tuning_level, b.problems, b.measured, time(b.tuning_s), clocks.empty() ? "" : " at " + clocks, b.cached,
                     stages, doubts);
}

}  // namespace smelt::cli
