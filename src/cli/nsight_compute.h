// Nsight Compute as the one that counts a GPU's kernels, where CUPTI in this process cannot.
#pragma once

#include "cli/common.h"
#include "profile/profile.h"

namespace smelt::cli {

/// Runs `ncu` from PATH around a process that launches the steps (smelt launch). `m` and `optimized` say of which plan.
profile::CountedBy by_nsight_compute(const ModelArguments& m, bool optimized);

}  // namespace smelt::cli
