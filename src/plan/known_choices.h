// Kernels without a search: what a plan names, what is ready at once, what was chosen for similar extents.
#pragma once

#include <vector>

#include "plan/pending_step.h"

namespace smelt::plan {

/// Gives steps such kernels, by so many threads; those that are left have to choose. Where something may be measured only what the
/// plan names is taken. What it names is kept for other extents.
void take_known(std::vector<PendingStep>& pending, tune::Tuner& tuner, SimilarChoices& similar, int threads, bool may_measure);

/// What a step chooses from where nothing is measured: kernels that are ready at once where one of them is short, else all. Searching
/// for others takes ten times as long. Throws Error (unsupported) where no tactic runs it.
ops::Offer offer_unmeasured(const ops::BoundNode& node, const tune::Tuner& tuner);

}  // namespace smelt::plan
