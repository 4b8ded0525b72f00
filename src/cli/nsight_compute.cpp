#include "cli/nsight_compute.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/process.h"
#include "cli/service.h"
#include "profile/counted_kernels.h"

namespace smelt::cli {
namespace {

constexpr int limit_s = 300;
constexpr size_t most_kernels = 60;  // each is run a dozen times, with memory put back in between

}  // namespace

profile::CountedBy by_nsight_compute(const ModelArguments& m, bool optimized) {
  return {"Nsight Compute", [m, optimized](Execution&, std::span<const size_t> steps, size_t kernels) {
            if (kernels > most_kernels) fail("{} kernels are more than {}", kernels, most_kernels);
            const std::vector<std::string>& metrics = profile::counted_metrics();
            std::vector<std::string> words{"ncu",
                                           "--csv",
                                           "--page",
                                           "raw",
                                           "--print-units",
                                           "base",
                                           "--profile-from-start",
                                           "off",
                                           "--clock-control",
                                           "none",
                                           "--launch-count",
                                           std::to_string(kernels + 1),
                                           "--metrics",
                                           fmt::format("{}", fmt::join(metrics, ","))};
            const std::vector<std::string> command = command_of("launch", m, {m.path});
            words.insert(words.end(), command.begin(), command.end());
            if (!m.input_files.empty()) words.insert(words.end(), {"--inputs", fmt::format("{}", fmt::join(m.input_files, ","))});
            words.insert(words.end(), {"--seed", std::to_string(m.seed), "--steps", fmt::format("{}", fmt::join(steps, ","))});
            if (optimized) words.push_back("--optimized");
            const Finished ran = run_program(words, -1, limit_s);
            if (ran.not_started == ENOENT) fail("ncu is not on PATH");
            if (ran.not_started) fail("ncu does not start: {}", std::strerror(ran.not_started));
            if (!ran.in_time) fail("ncu took more than {} s", limit_s);
            return profile::read_nsight_compute(ran.output, metrics);
          }};
}

}  // namespace smelt::cli
