#include "cli/nsight_compute.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "cli/service.h"
#include "profile/counted_kernels.h"

namespace smelt::cli {
namespace {

constexpr size_t most_kernels = 60;  // each is run a dozen times, with memory put back in between

}  // namespace

profile::CountedBy by_nsight_compute(const ModelArguments& m, bool optimized) {
  return {"Nsight Compute", [m, optimized](Execution&, std::span<const size_t> steps, size_t kernels) {
            if (kernels > most_kernels) fail("{} kernels are more than {}", kernels, most_kernels);
            std::vector<std::string> words = command_of("launch", m, {m.path});
            if (!m.input_files.empty()) words.insert(words.end(), {"--inputs", fmt::format("{}", fmt::join(m.input_files, ","))});
            words.insert(words.end(), {"--seed", std::to_string(m.seed), "--steps", fmt::format("{}", fmt::join(steps, ","))});
            if (optimized) words.push_back("--optimized");
            return profile::count_by_nsight_compute(words, kernels + 1);  // one too many is seen
          }};
}

}  // namespace smelt::cli
