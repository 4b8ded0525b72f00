// Compiles what the tuner will measure.
#pragma once

#include <vector>

#include "plan/context.h"

namespace smelt::plan {

/// Prepares the candidates with all cores, and lets them go: the compiled kernels stay in the store of kernels. What cannot be
/// prepared is only logged, since measuring it says so and leaves it out.
void prepare_candidates(const std::vector<ops::Candidate>& candidates, const Context& context);

}  // namespace smelt::plan
