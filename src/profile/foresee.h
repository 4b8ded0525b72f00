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
  int seen = 0;   // of them: the profiled plan has one of the same problem and kernel, whose time it is
  int tuned = 0;  // what the kernel took when tuned, times what the profiled plan's steps take of that; the rest is modelled
};

/// `other`: the steps of the other plan. Where the tuner timed the profiled plan's kernel for a problem beside the other's, the two
/// tell how much longer than in tuning that problem takes in a run. A step that was neither seen nor tuned takes what the profiled
/// plan's steps take beyond their roof. Gaps between steps are as the profile's.
Foreseen foresee(const Profile& p, std::span<const StepInfo> other);

}  // namespace smelt::profile
