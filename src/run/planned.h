// What a GPU's plan would launch, step by step, without running it: also for a GPU that is not here (Options::arch).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/cuda/planned.h"
#include "smelt/session.h"

namespace smelt::run {

struct PlannedStep {
  StepInfo step;
  std::string in;  // the If that it is a branch of, "If_3 then_branch"; empty: the model itself
  std::vector<ops::PlannedLaunch> launches;
};

struct PlannedRun {
  std::vector<PlannedStep> steps;
  std::string arch;                 // "sm_90a"
  int multiprocessors = 0;          // of the GPU; where it is not here, of a usual one of that architecture
  std::vector<std::string> unseen;  // nodes behind which, or in whose bodies, sizes are known at run time only
};

/// For inputs of these shapes. Throws Error (usage) for a plan of the processor, and as planning the shapes does.
PlannedRun planned_run(const Plan& plan, std::span<const Shape> inputs);
/// What the last run of an execution launched: a step for each of steps().
PlannedRun planned_run(Execution& execution);

}  // namespace smelt::run
