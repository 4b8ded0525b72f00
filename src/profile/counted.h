// What limits a kernel, by a GPU's counters rather than by the model of its work.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "profile/profile.h"

namespace smelt::profile {

/// The metrics that device::cuda::count() is to be asked for, and what their values say.
const std::vector<std::string>& counted_metrics();
Counted counted(std::span<const double> values);

/// compute and memory: a third or more of what their units sustain, whichever is more; launch: neither, and no longer than
/// starting it takes (`launch_us`, twice); latency: the rest.
Limiter limiter_of(const Counted& c, double launch_us);
/// "issue slots 78% busy, 3.1 of 32 threads an instruction: its branches diverge".
std::string because(const Counted& c, Limiter limiter);

}  // namespace smelt::profile
