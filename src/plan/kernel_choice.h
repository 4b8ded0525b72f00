// From a segment's steps to kernels: offers, the tuner's choice, preparation.
#pragma once

#include "plan/buckets.h"
#include "plan/context.h"
#include "plan/kernel_reuse.h"
#include "plan/segment.h"
#include "plan/similar_choices.h"

namespace smelt::plan {

/// For each kernel step: the problem, the chosen candidate and its kernel. Errors name the node. Options::progress is told after
/// each distinct problem. Steps that `reusable` has take its kernels. A step of sizes in a bucket that `buckets` knows is not
/// measured again; what is measured is kept there. At Measure::no nothing is measured: a step takes the choice that
/// `similar` has for the nearest extents, without a search, or what the tuner knows or estimates. Choices are kept there. On a GPU, steps
/// that none of its tactics runs get a kernel of the processor's where Options::allow_fallback is set; otherwise that is an error
/// (unsupported). After find_alignments.
void choose_kernels(Segment& s, Context& context, BucketChoices& buckets, SimilarChoices& similar,
                    const ReusableKernels& reusable, Measure measure);

/// Keeps what the step runs with, by measurement, for its bucket and for other extents.
void keep_choice(const Segment& s, const Step& step, BucketChoices& buckets, SimilarChoices& similar);

}  // namespace smelt::plan
