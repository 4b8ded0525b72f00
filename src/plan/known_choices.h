// Kernels without a search: what a plan names, what is ready at once, what was chosen for similar extents.
#pragma once

#include <vector>

#include "plan/pending_step.h"

namespace smelt::plan {

/// Gives steps such kernels, by so many threads; those that are left have to choose. Where something may be measured only what the
/// plan names is taken. What it names is kept for other extents.
void take_known(std::vector<PendingStep>& pending, tune::Tuner& tuner, SimilarChoices& similar, int threads, bool may_measure);

}  // namespace smelt::plan
