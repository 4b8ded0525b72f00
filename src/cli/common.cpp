#include "cli/common.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "profile/inputs.h"

namespace smelt::cli {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

report::Subject ModelArguments::subject() const {
  report::Subject s;
  s.path = path;
  s.options = options;
  s.options.keep_fp32 = split(keep_text);
  s.options.use_cache = !no_cache;
  s.shapes = profile::parse_shapes(shapes_text);
  s.input_files = input_files;
  s.seed = seed;
  return s;
}

void add_model_options(CLI::App& app, ModelArguments& m) {
  app.add_option("model", m.path, "An ONNX model, or a plan that smelt optimize wrote")->required();
  app.add_option("--shapes", m.shapes_text, "Extents of symbolic inputs: x:1x3x224x224,mask:1x8 (1 where not given)");
  app.add_option("--threads", m.options.threads, "CPU threads; 0 all that this process may use")->check(CLI::Range(0, 4096));
  app.add_option("--tactics", m.options.tactics, "Tactics allowed (+) and refused (-) by name: +onednn,-reference");
  app.add_option("--tuning-level", m.options.tuning_level, "0 the cost model's first choice … 3 every candidate measured")->check(CLI::Range(0, 3));
  app.add_option("--skip", m.options.skip, "Rewrites to leave out, by name")->delimiter(',');
  app.add_option("--precision", m.options.precision, "Convert an fp32 model: fp16, bf16 or tf32")->check(CLI::IsMember({"fp16", "bf16", "tf32"}));
  app.add_option("--keep-fp32", m.keep_text, "Patterns (* and ?) of nodes or modules that stay fp32, comma-separated");
  app.add_option("--cache-dir", m.options.cache_dir, "Where timings are kept (SMELT_CACHE_DIR, or ~/.cache/smelt)");
  app.add_flag("--no-cache", m.no_cache, "Neither read nor write the timing cache");
  app.add_flag("--json", m.as_json, "Print JSON");
}

void add_input_options(CLI::App& app, ModelArguments& m) {
  app.add_option("--inputs,--loadInputs", m.input_files, "in.npz, or NAME:file.npy and NAME:file.raw; random where not given")->delimiter(',');
  app.add_option("--seed", m.seed, "Of the random inputs");
}

int terminal_width() {
  if (!isatty(STDOUT_FILENO)) return 0;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 40 ? size.ws_col : 0;
}

void print_table(const report::Table& t) {
  // Into a pipe, tables keep whole cells up to a width that editors and mails still show.
  fmt::print("{}", report::print(t, terminal_width() ? terminal_width() : 180));
}
void print_line(const std::string& line) { fmt::print("{}{}", line, line.ends_with('\n') ? "" : "\n"); }
void note(const std::string& line) { fmt::print(stderr, "{}\n", line); }

}  // namespace smelt::cli
