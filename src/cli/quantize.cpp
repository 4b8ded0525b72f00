#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/common.h"

namespace smelt::cli {
namespace {

/// The Python that the command was installed by (ENVIRONMENT/lib/pythonX/site-packages/smelt/bin/smelt); elsewhere, as in a build
/// folder, the first of PATH, which is an activated environment's own.
std::string python() {
  std::error_code none;
  const std::filesystem::path packages =
      std::filesystem::read_symlink("/proc/self/exe", none).parent_path().parent_path().parent_path();
  if (packages.filename() != "site-packages" && packages.filename() != "dist-packages") return "python3";
  const std::filesystem::path own = packages.parent_path().parent_path().parent_path() / "bin/python3";
  return std::filesystem::exists(own, none) ? own.string() : "python3";
}

constexpr const char* script = R"(import sys
try:
    from smelt.quantization import command
except ImportError as e:
    sys.exit(f"smelt quantize: {sys.executable} has no smelt ({e}): the verb runs in the Python package\npip install . in smelt's source")
command(sys.argv[1])
)";

}  // namespace

Action add_quantize(CLI::App& app) {
  struct Arguments {
    std::string model, output, data, activations = "u8", method = "minmax";
    std::vector<std::string> exclude;
    int limit = 64, threads = 0;
    bool json = false, per_tensor = false;
  };
  auto a = std::make_shared<Arguments>();
  app.add_option("model", a->model, "The model, in f32")->required()->type_name("FILE");
  app.add_option("-o,--output", a->output, "Where the quantised model is written")->required()->type_name("FILE");
  app.add_option("--data", a->data, "Folder of .npz files, a batch each, inputs by name (.npy: of a model with one input)")
      ->required()
      ->type_name("DIR");
  app.add_option("--activations", a->activations, "Type of activations (u8); weights are i8")->check(CLI::IsMember({"u8", "s8"}));
  app.add_option("--method", a->method, "How ranges are found (minmax)")
      ->check(CLI::IsMember({"minmax", "entropy", "percentile"}));
  app.add_flag("--per-tensor", a->per_tensor, "One scale for all output channels of a weight");
  app.add_option("--exclude", a->exclude, "Nodes that stay in float")->delimiter(',')->allow_extra_args(false)->type_name("NAME");
  app.add_option("--limit", a->limit, "Batches that are read at most (64)")->check(in_range(1, 1 << 20))->type_name("N");
  app.add_option("--threads", a->threads, "Threads of the runs that compare; 0: all cores")
      ->check(in_range(0, 4096))
      ->type_name("N");
  app.add_flag("--json", a->json, "Print JSON");
  return [a]() -> int {
    const std::string options = nlohmann::json{{"model", a->model},     {"output", a->output},
                                               {"data", a->data},       {"activations", a->activations},
                                               {"method", a->method},   {"per_channel", !a->per_tensor},
                                               {"exclude", a->exclude}, {"limit", a->limit},
                                               {"threads", a->threads}, {"json", a->json}}
                                    .dump();
    const std::string program = python();
    execlp(program.c_str(), program.c_str(), "-c", script, options.c_str(), static_cast<char*>(nullptr));
    throw Error(fmt::format("no {} can be run", program), "The verb runs in smelt's Python package: pip install .",
                ExitCode::unsupported);
  };
}

}  // namespace smelt::cli
