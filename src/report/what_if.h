// What following a profile's advice would save: the plans that options make of it, by what their kernels take.
#pragma once

#include "report/subject.h"

namespace smelt::report {

enum class WhatIf : uint8_t {
  no,
  plan,  // the plans are built: what their kernels took when they were tuned (profile/foresee.h), or some runs, say what they win
  run,   // and then they run, in turn with the profiled one: Advice::tried_us
};

/// Of a profile of `prepared`: sets what the advice that an option follows is worth, and ranks it anew. `optimized`: it is of the
/// rewritten model. A plan that cannot be built leaves its advice as it is, with a warning.
void what_if(profile::Profile& p, const Subject& s, const Prepared& prepared, bool optimized, WhatIf how);

}  // namespace smelt::report
