// From a segment's steps to kernels: offers, the tuner's choice, preparation.
#pragma once

#include "run/bound.h"

namespace smelt::run {

/// For each kernel step: the problem, the chosen candidate and its kernel. Errors name the node. `progress` (may be empty) is
/// told after each distinct problem.
void choose_kernels(Segment& s, tune::Tuner& tuner, ops::WeightStore* weights,
                    const std::function<void(const Progress&)>& progress = {});

/// What the profiler and `info` see of each step that runs.
std::vector<StepInfo> describe_steps(const Graph& g, const Segment& s);

}  // namespace smelt::run
