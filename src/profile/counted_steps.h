// What the processor's counters add to the limits of a plan's steps.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "device/cpu/counters.h"
#include "profile/profile.h"

namespace smelt::profile {

/// Of one step, over all threads and runs.
struct CountedStep {
  double cycles = 0, instructions = 0, misses = 0;
};

/// Gives what was counted between two samples of a thread to the step in which the later one lies. `begin_ns`: of the run, on the
/// samples' clock.
void share_out(const std::vector<std::vector<device::cpu::CounterSample>>& threads, std::span<const StepTime> times,
               int64_t begin_ns, std::vector<CountedStep>& steps);

/// Refines a limiter that judge() gave, of `us` microseconds in which that was counted. A step that is near neither roof by its
/// work is memory's where its misses move a third of the bandwidth or more, and compute's where it issues two instructions a
/// cycle or more: its kernel moves, or computes, more than it must. Nothing counted changes nothing.
void refine(StepRow& row, const CountedStep& c, double us, const Roof& roof);

/// Counts the steps by some runs more, and refines their limiters. Returns why nothing was counted; empty where it was.
std::string count_steps(Execution& execution, std::vector<StepRow>& steps, const Roof& roof);

}  // namespace smelt::profile
