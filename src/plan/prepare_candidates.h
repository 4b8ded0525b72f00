// Compiles what the tuner will measure, and has it measured.
#pragma once

#include <span>
#include <vector>

#include "plan/context.h"

namespace smelt::plan {

/// An order for threads that prepare the candidates: of those with the same tactic and configuration the second ones come after all
/// first ones, and so on. Many problems have the same kernel, and who wants what another thread compiles waits for it.
std::vector<size_t> preparation_order(std::span<const ops::Candidate> candidates);

/// A problem that is to be measured.
struct RacedProblem {
  const ops::BoundNode* node;
  const ops::Offer* offer;
};

/// Measures what choosing a kernel for each of these takes, a GPU's, stage by stage: all cores prepare what the stages of all problems
/// need, and let it go, for the compiled kernels stay in the store of kernels; then it is measured. What cannot be prepared or measured
/// is left out from then on.
void measure_in_stages(std::span<const RacedProblem> problems, Context& context);

}  // namespace smelt::plan
