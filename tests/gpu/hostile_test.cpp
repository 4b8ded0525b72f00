// What once crashed, hung or read what was not its own, on a GPU: the models of tests/repro, and those of tests/python/hostile.py, which
// scripts/gpu_tests.sh writes with what they are fed. Each ends within two seconds, in an error or in what the processor computes.
#include <chrono>
#include <span>

#include "base/error.h"
#include "fuzz/operators/agree.h"
#include "fuzz/operators/case.h"
#include "gpu/plans.h"
#include "import/import.h"
#include "ops/core/operator.h"
#include "support/paths.h"

namespace smelt::run {
namespace {

namespace fs = std::filesystem;

constexpr double longest_s = 2;

/// Beside the program, or where the repository and its build are.
std::vector<fs::path> hostile_cases() {
  std::vector<fs::path> cases;
  for (const auto& [here, built] :
       {std::pair{"repro", source_dir() / "tests/repro"}, std::pair{"hostile", build_dir() / "hostile"}})
    if (const fs::path root = fs::exists(here) ? fs::path(here) : built; fs::exists(root))
      std::ranges::copy(fuzz::list_models(root), std::back_inserter(cases));
  return cases;
}

struct Ended {
  std::vector<Tensor> outputs;
  std::string refused;
  double seconds = 0;
};

/// From the model's bytes to its outputs in the host's memory. Exceptions that are no Error leave it.
Ended run_case(const fuzz::OperatorCase& c, const Options& options) {
  Ended e;
  const auto begin = std::chrono::steady_clock::now();
  try {
    ImportOptions reading;
    reading.folder = "/nonexistent";
    reading.supported = [](std::string_view domain, std::string_view op) { return ops::find(op, domain) != nullptr; };
    const std::string bytes = c.model.SerializeAsString();
    const auto plan = Plan::build(
        import_model(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), c.name, reading), options);
    std::vector<Tensor> fed;
    for (const TensorInfo& i : plan->inputs())
      for (const fuzz::Feed& f : c.feeds)
        if (f.name == i.name) fed.push_back(f.tensor);
    const auto execution = plan->execution();
    execution->bind(fed);
    execution->run();
    for (const Tensor& t : execution->outputs()) e.outputs.push_back(to_host(t).clone());
  } catch (const Error& error) {
    e.refused = error.what();
    e.outputs.clear();
  }
  e.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return e;
}

/// Whether two machines have to give the same: numbers that no rounding or saturation makes others, and nothing drawn.
bool is_certain(const fuzz::OperatorCase& c) {
  return fuzz::is_tame(c) && std::ranges::none_of(c.model.graph().node(), [](const auto& n) {
           const ops::OpDef* def = ops::find(n.op_type(), n.domain());
           return def && !def->deterministic;
         });
}

class GpuHostile : public ::testing::TestWithParam<bool> {};

TEST_P(GpuHostile, every_case_ends_soon_in_an_error_or_in_what_the_processor_computes) {
  const std::vector<fs::path> cases = hostile_cases();
  ASSERT_GT(cases.size(), 30u);
  Options options = on_gpu();
  options.optimize = GetParam();
  options.use_cache = true;                                 // of compiled kernels: the second run is timed
  options.memory_limit = int64_t{1} << 30;                  // what asks for more takes as long as memory takes to fill
  const auto open = Plan::build(block(4, 8, 1), on_gpu());  // a GPU that no plan uses is closed, and takes a second to open
  options.skip.clear();
  size_t ran = 0, refused = 0;
  for (const fs::path& path : cases) {
    SCOPED_TRACE(path.string());
    std::cout << path.filename().string() << std::flush;  // what ends the program is the last one
    fuzz::Random random(1);
    fuzz::OperatorCase c;
    try {
      c = fuzz::read_case(path, random);
    } catch (const Error&) {  // an input that is no tensor: the processor's tests have it
      continue;
    }
    Options on_cpu = unfused();
    on_cpu.memory_limit = options.memory_limit;
    const Ended want = run_case(c, on_cpu);
    const Ended first = run_case(c, options);  // compiles kernels
    Ended got = run_case(c, options);
    if (got.seconds >= longest_s) got = run_case(c, options);  // others may have had the machine
    EXPECT_LT(got.seconds, longest_s) << got.refused;
    std::cout << fmt::format(": {} in {:.2f} s, {:.2f} s with its kernels\n", got.refused.empty() ? "ran" : "refused",
                             got.seconds, first.seconds);
    ++(got.refused.empty() ? ran : refused);
    EXPECT_LT(got.refused.size(), 1000u) << got.refused;
    EXPECT_EQ(got.refused.find("CUDA"), std::string::npos) << got.refused;  // an error of the driver's is a kernel's mistake
    if (!got.refused.empty() || !want.refused.empty()) continue;
    ASSERT_EQ(got.outputs.size(), want.outputs.size());
    for (size_t i = 0; i < want.outputs.size(); ++i) EXPECT_EQ(got.outputs[i].shape(), want.outputs[i].shape());
    if (!is_certain(c)) continue;
    const std::string apart = fuzz::difference(want.outputs, got.outputs, true);
    EXPECT_TRUE(apart.empty()) << apart;
  }
  std::cout << cases.size() << " cases, " << ran << " ran, " << refused << " were refused\n";
  EXPECT_GT(ran, 20u);
}

INSTANTIATE_TEST_SUITE_P(Optimised, GpuHostile, ::testing::Bool());

}  // namespace
}  // namespace smelt::run
