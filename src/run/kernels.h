// From a segment's steps to kernels: offers, the tuner's choice, preparation.
#pragma once

#include "run/bound.h"
#include "run/known_steps.h"
#include "run/plan.h"

namespace smelt::run {

/// For each kernel step: the problem, the chosen candidate and its kernel. Errors name the node. Options::progress is told after
/// each distinct problem. Steps that `known` has take its kernels; one of sizes in a bucket that `buckets` knows is measured no
/// more, and others are kept there. On a GPU, steps that none of its tactics runs get a kernel of the processor's where
/// Options::allow_fallback is set; else that is an error (unsupported).
void choose_kernels(Segment& s, PlanImpl::Shared& shared, BucketChoices& buckets, const KnownSteps& known);

/// What the profiler and `info` see of each step that runs. After place_buffers.
std::vector<StepInfo> describe_steps(const Graph& g, const Segment& s);

}  // namespace smelt::run
