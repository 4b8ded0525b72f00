// The smelt command: one subcommand a verb.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/busy.h"
#include "cli/common.h"
#include "profile/guesses.h"
#include "report/facts.h"

namespace smelt::cli {
namespace {

struct Verb {
  const char *name, *what, *example;
  Action (*add)(CLI::App&);
};

constexpr Verb verbs[] = {
    {"info", "What is in a model: inputs, outputs, operators, weights, modules", "smelt info resnet50.onnx --node conv1",
     add_info},
    {"profile", "Where the time goes, per node and per module, and what limits it",
     "smelt profile resnet50.onnx --top 10 --report profile.html", add_profile},
    {"optimize", "Fuse, tune and write the plan, a valid ONNX file", "smelt optimize resnet50.onnx -o resnet50.plan.onnx",
     add_optimize},
    {"quantize", "Write the model in 8 bits, calibrated on your data, and say what that cost (in the Python package)",
     "smelt quantize resnet50.onnx -o resnet50.int8.onnx --data images", add_quantize},
    {"explain", "Every pattern tried: matched, or why not", "smelt explain bert.onnx --pattern attention", add_explain},
    {"run", "Run once on given or random inputs", "smelt run resnet50.onnx --inputs in.npz --outputs out.npz", add_run},
    {"bench", "Time the optimised plan against the unfused model (or two plans), interleaved",
     "smelt bench resnet50.onnx --require-speedup --report report.html", add_bench},
    {"compare", "Numeric error between two models or plans on the same inputs",
     "smelt compare resnet50.onnx resnet50.plan.onnx --bisect", add_compare},
    {"diff", "Two profiles side by side, by module and by node: smelt's, PyTorch's, ONNX Runtime's, trtexec's, Nsight Systems'",
     "smelt diff torch_trace.json smelt_profile.json", add_diff},
    {"tune", "Measure every kernel that runs a matrix product: ranked, against the machine's ceilings and the vendor's library",
     "smelt tune gemm:f32:48x1024x1024:rcr:bias+relu --plot tune.svg", add_tune},
    {"inspect", "What a kernel takes of a GPU, and how many of its blocks fit: of a cubin, PTX, or a launch",
     "smelt inspect --launch regs=63,smem=70KiB,threads=128 --arch sm_90", add_inspect},
    {"devices", "What can run here, and its measured ceilings", "smelt devices --measure", add_devices},
    {"serve", "Serves a model for smelt profile --with", "", add_serve},
    {"launch", "Launches steps of a model for a profiler around smelt profile", "", add_launch},
    {"cache", "List, merge, export or clear the tuning cache", "smelt cache list", add_cache},
};

/// To standard error, which may be closed or full: the exit code says the rest.
template <class... A> void complain(fmt::format_string<A...> f, A&&... a) {
  const std::string text = fmt::format(f, std::forward<A>(a)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

int main(int argc, char** argv) {
  CLI::App app{"smelt makes ONNX models run fast, shows why they were slow, and proves that they got faster.", "smelt"};
  app.set_version_flag("--version", report::version_line());
  app.require_subcommand(1);
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.get_formatter()->label("Subcommands", "Verbs");
  app.get_formatter()->label("REQUIRED", "");
  app.footer(
      "Exit codes: 0 done, 1 failed, 2 usage, 3 unsupported, 4 accuracy, 5 speed-up not proven, 6 stopped by a limit.\n"
      "smelt VERB --help shows a verb's options and an example.");
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Verb& v : verbs) {
    CLI::App* sub = app.add_subcommand(v.name, v.what);
    sub->footer(fmt::format("Example:\n  {}", v.example));
    actions.emplace_back(sub, v.add(*sub));
  }
  const auto is_verb = [&](const Verb& v) { return v.name == std::string_view(argv[1]); };
  if (argc > 1 && argv[1][0] != '-' && std::none_of(std::begin(verbs), std::end(verbs), is_verb)) {
    complain("smelt: there is no verb '{}'\nSee smelt --help\n", argv[1]);
    return static_cast<int>(ExitCode::usage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help and --version
  } catch (const CLI::ParseError& e) {
    const auto verb = app.get_subcommands();
    complain("smelt: {}\nSee smelt {}--help\n", e.what(), verb.empty() ? "" : verb.front()->get_name() + " ");
    return static_cast<int>(ExitCode::usage);
  }
  for (auto& [sub, action] : actions) {
    if (!sub->parsed()) continue;
    try {
      const BusyLine busy;
      const int code = action();
      if (std::fflush(stdout) != 0) fail("standard output: cannot write: {}", std::strerror(errno));
      if (const std::string guessed = profile::extents_text(profile::last_guesses()); !guessed.empty()) warn("{}", guessed);
      return code;
    } catch (const Error& e) {
      complain("smelt {}: {}\n", sub->get_name(), e.what());
      // What was not given may be what the model does not take.
      const std::string guessed = e.code() == ExitCode::failed ? profile::advice(profile::last_guesses()) : "";
      if (const std::string next = e.next().empty() ? guessed : e.next(); !next.empty()) complain("{}\n", next);
      return static_cast<int>(e.code());
    } catch (const std::bad_alloc&) {
      const auto resident = static_cast<double>(profile::resident_bytes());
      complain("smelt {}: out of memory ({} resident)\n", sub->get_name(), report::format(resident, report::Unit::bytes));
      return static_cast<int>(ExitCode::failed);
    } catch (const std::filesystem::filesystem_error& e) {
      complain("smelt {}: {}: {}\n", sub->get_name(), e.path1().string(), e.code().message());
      return static_cast<int>(ExitCode::failed);
    } catch (const std::exception& e) {
      complain("smelt {}: {}\n", sub->get_name(), e.what());
      return static_cast<int>(ExitCode::failed);
    }
  }
  return static_cast<int>(ExitCode::usage);
}

}  // namespace
}  // namespace smelt::cli

int main(int argc, char** argv) {
  // A file that is opened while these are closed would take their place, and messages would be written into it.
  for (int fd = ::open("/dev/null", O_RDWR); fd >= 0 && fd <= STDERR_FILENO; fd = ::open("/dev/null", O_RDWR))
    if (fd == STDERR_FILENO) break;
  try {
    smelt::clean_up_on_signals();
    return smelt::cli::main(argc, argv);
  } catch (const std::exception& e) {  // before a verb began
    std::fprintf(stderr, "smelt: %s\n", e.what());
    return static_cast<int>(smelt::ExitCode::failed);
  }
}
