// How the launches of a GPU's plan fill it: what the model of work alone cannot say of a step that waits.
#pragma once

#include <optional>

#include "profile/profile.h"
#include "run/planned.h"

namespace smelt::profile {

/// Nothing where the architecture is not known.
std::optional<Fill> fill_of(const ops::PlannedLaunch& launch, const run::PlannedRun& run);
/// Gives each row the fills of its launches, and those that latency limits the reason: blocks for few of the multiprocessors, a last wave that
/// is mostly empty, or few warps. `run` has a step for each row.
void add_fills(std::vector<StepRow>& rows, const run::PlannedRun& run);
/// What follows for such steps.
void advise_on_fills(const Profile& p, std::vector<Advice>& all);

}  // namespace smelt::profile
