// What limits the steps of a GPU's plan by the GPU's counters: CUPTI's range profiler in this process, or Nsight Compute around
// another one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "profile/counted.h"
#include "profile/profile.h"

namespace smelt::profile {

/// Steps worth counting: one of those with the same problem, tactic and settings, those that take longest first, while their
/// kernels (by step) are no more than `most` in all. In the plan's order. Steps without kernels are left out.
std::vector<size_t> steps_to_count(const std::vector<StepRow>& rows, std::span<const size_t> kernels, size_t most);

/// Gives a row, and the rows of its kind, what its kernels' counters say: limiter, because and counted. The kernel that takes
/// longest decides.
void refine(StepRow& row, std::span<const Counted> kernels, double launch_us);

/// Counts the steps of an execution by the first of `ways` that can, one of each kind where it cannot count so many, and refines
/// their limiters.
/// Returns what counted, and why the others did not; nothing is counted of plans whose steps cannot run by themselves.
struct CountedSteps {
  std::string by;       // "CUPTI"; empty: nobody
  std::string missing;  // why it was not counted, or by which of the ways not
};
CountedSteps count_kernels(Execution& execution, std::vector<StepRow>& rows, double launch_us, std::span<const CountedBy> ways);

/// CUPTI in this process.
CountedBy by_cupti();

/// Values of counted_metrics() of each kernel that a program launches while it is Watched (device/cuda/counters.h), at most `kernels`, in
/// their order: `ncu` from PATH runs it. Throws Error where ncu is not there, takes five minutes or prints no table.
std::vector<std::vector<double>> count_by_nsight_compute(const std::vector<std::string>& program, size_t kernels);

/// What Nsight Compute printed (--csv --page raw), a row a kernel: NaN for a metric that it has no figure of. Throws Error
/// with the tool's own words where there is no table.
std::vector<std::vector<double>> read_nsight_compute(const std::string& printed, const std::vector<std::string>& metrics);

}  // namespace smelt::profile
