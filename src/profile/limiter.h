// What limits a step: its work, as the operators' costs say it (ops/core/cost.h), held against the machine's measured roof.
#pragma once

#include "profile/profile.h"

namespace smelt::profile {

/// The element type a step computes in, from its problem's printed form ("conv:f16>f16:…", "Add:f16[8],f16[8]>f16[8]"), else from its
/// outputs; f32 where neither says one.
DType computes_in(const StepInfo& step);
/// Whether it only moves elements: a copy, a transposition, a change of layout or type.
bool only_moves(const StepInfo& step);

/// Fills in what a row says beside its time: compute_us, memory_us, roof_share, at_stake_us, limiter, because.
///
///   compute, memory  it takes less than three times what its operations or its bytes must take, whichever is more
///   launch           its work takes less than starting it, and it takes less than eight starts
///   memory           it only moves elements: the bytes it must move are not all that it moves, for it uses parts of cache lines
///   latency          neither roof is near: too little is under way at a time, or a slow kernel
///
/// Decided by alone_us where that is known, else by the fastest of the runs: other work on the machine makes runs longer and never
/// shorter.
void judge(StepRow& row, const Roof& roof);

/// Makes the rows of bodies that take longer together than the step around them shares of its time: they are timed in other runs
/// than it, so that noise may do that.
void fit_into(std::span<InnerRow> rows, std::span<const StepRow> steps);
/// A step that runs bodies moves and computes what they do, and is limited by what limits most of that. Rows that run bodies themselves
/// get the same of theirs. Of rows that are judged.
void judge_by_inside(std::span<StepRow> steps, std::span<InnerRow> inside);
/// In the order of reading: a row, then what is inside of it.
std::vector<InnerRow> parents_first(std::vector<InnerRow> rows);
/// The steps inside of bodies, by the fastest of some runs more of the execution, fitted into `steps`, those of the model.
std::vector<InnerRow> inner_rows(Execution& execution, std::span<const StepRow> steps, const Roof& roof, int runs);

}  // namespace smelt::profile
