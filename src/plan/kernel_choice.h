// From a segment's steps to kernels: offers, the tuner's choice, preparation.
#pragma once

#include "plan/buckets.h"
#include "plan/context.h"
#include "plan/kernel_reuse.h"
#include "plan/segment.h"

namespace smelt::plan {

/// For each kernel step: the problem, the chosen candidate and its kernel. Errors name the node. Options::progress is told after
/// each distinct problem. Steps that `reusable` has take its kernels. A step of sizes in a bucket that `buckets` knows is not
/// measured again; what is measured is kept there. On a GPU, steps that none of its tactics runs get a kernel of the processor's
/// where Options::allow_fallback is set; otherwise that is an error (unsupported). After find_alignments.
void choose_kernels(Segment& s, Context& context, BucketChoices& buckets, const ReusableKernels& reusable);

}  // namespace smelt::plan
