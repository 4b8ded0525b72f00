// What a run of another plan of the same model would take, before it runs: from the profile of this one, and what the other's kernels
// took by themselves when they were tuned.
#pragma once

#include <span>

#include "profile/profile.h"

namespace smelt::profile {

/// A run of a plan, by its steps.
struct Foreseen {
  double run_us = 0;
  int steps = 0;
  int seen = 0;    // of them: the profiled plan has one of the same problem and kernel, whose time it is
  int tuned = 0;   // what the kernel took when tuned, times what the profiled plan's steps take of that; the rest is modelled
  int beside = 0;  // of these: the tuner timed the profiled plan's kernel beside it
  /// Whether most of it is known from the profiled plan's own kernels: no steps of another kind, type or layout.
  bool sure() const { return 5 * (seen + beside) >= 4 * steps; }
};

/// `other`: the steps of the other plan. `early`: what its run takes with kernels that begin early, of what it takes without, over
/// the same of the profiled plan (run/early_launch.h); steps that were tuned one by one do not tell. Where the tuner timed the
/// profiled plan's kernel for a problem beside the other's, the two tell how much longer than in tuning that problem takes in a run.
/// A step that was neither seen nor tuned takes what the profiled plan's steps take beyond their roof. Gaps between steps are as the
/// profile's.
Foreseen foresee(const Profile& p, std::span<const StepInfo> other, double early = 1);

}  // namespace smelt::profile
