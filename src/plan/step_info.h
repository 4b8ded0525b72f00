// What the profiler and `info` see of a planned segment's steps.
#pragma once

#include <vector>

#include "plan/segment.h"

namespace smelt::plan {

/// Each step that runs, in order. After place_buffers.
std::vector<StepInfo> describe_steps(const Graph& g, const Segment& s);

}  // namespace smelt::plan
