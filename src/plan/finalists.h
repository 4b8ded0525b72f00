// The candidates of a GPU's step among which its model is to choose (tune/in_model.h), with their kernels.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "plan/pending_step.h"

namespace smelt::plan {

/// Prepares the finalists of the tuner's choices, by so many threads. A problem's are those that all of its steps can have; of a
/// problem with less than two, or while `has_room` says no, there are none.
void add_finalists(std::vector<PendingStep>& pending, int threads, const std::function<bool()>& has_room);

/// The step runs with that finalist from now on. `said`: of each finalist, why it was not chosen.
void take_finalist(Step& step, size_t finalist, std::span<const std::string> said);

}  // namespace smelt::plan
