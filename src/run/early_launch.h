// Chooses whether the recordings of a GPU's plan let kernels begin early (docs/gpu-design.md): by measuring both ways.
#pragma once

#include <memory>
#include <optional>

#include "plan/early_launch.h"
#include "smelt/session.h"

namespace smelt::run {

class PlanImpl;

/// For a plan that was prepared: as --tactics says, else as `carried`, its file's choice on a machine like this one, else by runs of
/// what was prepared first, with inputs of zeros. Off where nothing can be measured: on the processor, at tuning level 0, where
/// sizes depend on data, where no kernel would begin early, where memory is short.
plan::EarlyLaunch choose_early_launch(const std::shared_ptr<PlanImpl>& plan, const std::optional<plan::EarlyLaunch>& carried);

/// As it was chosen when the plan was built.
plan::EarlyLaunch early_launch_of(const Plan& plan);

}  // namespace smelt::run
